package embedded

import (
	"fmt"
	"log/slog"
	"os"
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
	// first give way. Default 256 MiB.
	MaxOutputBytes int64
	// MaxFileBytes bounds the file; what would need more gets dedupe.ErrFull
	// until records expire. 0 means no bound but the disk.
	MaxFileBytes int
	// Log is told what an operator should know. Default: nobody.
	Log *slog.Logger
}

// database is the open file.
type database struct {
	path    string
	options Options
	db      *bbolt.DB
	file    *os.File // bbolt's own, to let go of a database that is wedged
	commit  func(*bbolt.Tx) error
	clock   clock
	index   *index

	// durable is the id of the last transaction that is on the disk.
	durable atomic.Int64
	// failure is set, once and for good, when the file can no longer be
	// trusted to hold what is written to it.
	failure atomic.Pointer[error]
	wedged  atomic.Bool // a transaction died inside bbolt, holding its lock
}

// release lets go of the file.
func (d *database) release() error {
	if d.wedged.Load() {
		// bbolt would wait for ever for a lock that its own panic left behind;
		// closing the file releases the one that matters.
		return d.file.Close()
	}
	return d.db.Close()
}

// fail makes the store refuse everything from now on. What the disk or the
// kernel did with data that it failed to write is unknown, and a second try
// that seems to succeed proves nothing about the first.
func (d *database) fail(cause error) error {
	err := fmt.Errorf("the store %s has failed and must be opened again: %w", d.path, cause)
	if d.failure.CompareAndSwap(nil, &err) {
		d.options.Log.Error("the store has failed", "path", d.path, "error", cause)
	}
	return err
}
