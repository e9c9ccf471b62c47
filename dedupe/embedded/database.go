package embedded

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
)

// Options of a Store; zero values mean the defaults.
type Options struct {
	// LockWait is how long Open waits for another process to let go of the
	// file, as one that is just shutting down does. Default 2 s.
	LockWait time.Duration
	// MaxOutputBytes bounds the kept outputs together; the ones that expire
	// first give way. Default 256 MiB, a third of MaxFileBytes at the most.
	MaxOutputBytes int64
	// MaxFileBytes bounds the file; what would need more gets dedupe.ErrFull
	// until records expire. 0 means no bound but the disk.
	MaxFileBytes int64
	// Log is told what an operator should know. Default: nobody.
	Log *slog.Logger
}

// partOfOutputs is which part of the file outputs may have, so that there is room for
// records. A new one is written before the room of an older one is free: for a moment
// they need twice as much.
const partOfOutputs = 3

// database is the open file.
type database struct {
	path    string
	options Options
	db      *bbolt.DB
	file    *os.File // bbolt's own, to let go of a database that is wedged
	commit  func(*bbolt.Tx) error
	clock   clock
	index   *index
	// original is the file that was opened.
	original *original

	// durable is the id of the last transaction that is on the disk.
	durable atomic.Int64
	// failure is set, once and for good, when the file can no longer be
	// trusted to hold what is written to it.
	failure atomic.Pointer[error]
	// over is closed when nobody has to wait for the committer any more: the store
	// has failed, or the committer has ended.
	over     chan struct{}
	overOnce sync.Once
	// wedged: somebody died inside bbolt, holding its locks, or never came back.
	wedged atomic.Bool
	gate   sync.Mutex // see beginRead
}

// release lets go of the file.
func (d *database) release() error {
	if d.wedged.Load() {
		// bbolt would wait for ever for a lock that its own panic left behind;
		// closing the file releases the one that matters. What is mapped stays
		// until the process ends: somebody may still be looking at it.
		return d.file.Close()
	}
	return errors.Join(d.db.Close(), d.original.forget())
}
