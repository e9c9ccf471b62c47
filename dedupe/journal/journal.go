// Package journal is the dedupe.Journal in a file on this machine: where
// settlements wait whose store could not be reached.
//
// The file is append-only and bounded. Append returns when the entry is synced;
// appends at the same time share a sync. When no entry waits any more the file
// is cut back to its header; when it is full of entries that are done it is
// written anew without them. Entries that were done when the process was killed
// may be handed out once more at the next start: settling is idempotent.
//
// What a crash leaves of an append is cut off at the next start and reported. A
// damage is reported with its place, the entries before and after it are kept,
// and the damaged file stays beside the journal, under another name, for
// whoever wants to look. Opening goes on all the same: the loss of an entry
// makes no call run twice, for the record stays CLAIMED and then UNKNOWN, while
// a sidecar that does not start loses the entries that are intact too.
//
// The results of calls are in the file in plain text; its mode is 0600.
package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/sidecall/sidecall/dedupe"
)

// DefaultMaxBytes is how large the file may grow.
const DefaultMaxBytes = 64 << 20

// Options of a Journal; zero values mean the defaults.
type Options struct {
	// MaxBytes bounds the file. Default DefaultMaxBytes.
	MaxBytes int64
	// Log is told what an operator should know. Default: nobody.
	Log *slog.Logger

	disk disk
}

func (o Options) withDefaults() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.disk == nil {
		o.disk = osDisk{}
	}
	return o
}

// Journal is a dedupe.Journal in a file. One process uses the file at a time.
type Journal struct {
	path    string
	options Options
	id      fileID

	existed bool // the file, before it was opened

	damaged atomic.Int64
	waiting atomic.Int64  // len(byKey) and more: entries not done
	gaveUp  atomic.Uint64 // the last entry of the group that ended the last replay; 0: none did

	// io is held for writing while the file is exchanged or cut, but not synced,
	// for reading while an entry is read. It is taken before mu.
	io   sync.RWMutex
	file file

	mu     sync.Mutex
	closed bool
	queue  *batch // waits for the committer; nil: nothing does
	queued int64  // bytes in it
	end    int64  // of the file's frames
	live   int64  // bytes of the frames that wait
	seq    uint64 // the last given out
	slots  []*slot
	bySeq  map[uint64]*slot
	byKey  map[dedupe.Key]*slot // the newest of each key

	// renamed says that the file took the place of another and the directory
	// was not synced since. It is the committer's own.
	renamed bool

	// aside says that the file was copied for the operator since it was last
	// cut or written anew: one copy of it is enough.
	asideMu sync.Mutex
	aside   bool

	wake chan struct{} // the committer has something to do
	quit chan struct{} // closed by Close
	gone chan struct{} // closed when the committer has ended
}

var _ dedupe.Journal = (*Journal)(nil)

// slot is an entry of the file that is not done.
type slot struct {
	seq    uint64
	key    dedupe.Key
	offset int64
	size   int64 // of the frame
	done   bool
}

// batch is what the next sync covers.
type batch struct {
	frames []queued
	done   chan struct{} // closed when err is final
	err    error
}

type queued struct {
	key   dedupe.Key
	bytes []byte
}

// Append implements dedupe.Journal. The error wraps dedupe.ErrFull,
// dedupe.ErrInvalid or dedupe.ErrClosed, or is one of ctx or of the disk. With
// one of ctx the entry may still be written.
func (j *Journal) Append(ctx context.Context, late dedupe.Late) error {
	if err := validate(&late); err != nil {
		return err
	}
	b, err := j.enqueue(late.Settlement.Key, frame(j.id, encode(late)))
	if err != nil {
		return err
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return fmt.Errorf("gave up waiting for the disk: %w", ctx.Err())
	}
}

// enqueue puts a frame into the batch that the committer takes next.
func (j *Journal) enqueue(key dedupe.Key, bytes []byte) (*batch, error) {
	size := int64(len(bytes))
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return nil, fmt.Errorf("journal: %w", dedupe.ErrClosed)
	case j.queued+size > j.room():
		return nil, fmt.Errorf("journal: %w: %d bytes of at most %d wait", dedupe.ErrFull, j.live+j.queued, j.options.MaxBytes)
	}
	if j.queue == nil {
		j.queue = &batch{done: make(chan struct{})}
	}
	j.queue.frames = append(j.queue.frames, queued{key, bytes})
	j.queued += size
	j.nudge()
	return j.queue, nil
}

// room is how many bytes can be appended, after a compaction when it is worth
// it: when it would free an eighth of the file. mu is held.
func (j *Journal) room() int64 {
	if j.worthCompacting() {
		return j.options.MaxBytes - int64(headerSize) - j.live
	}
	return j.options.MaxBytes - j.end
}

func (j *Journal) worthCompacting() bool {
	dead := j.end - int64(headerSize) - j.live
	return dead > 0 && dead >= j.options.MaxBytes/8
}

// nudge wakes the committer.
func (j *Journal) nudge() {
	select {
	case j.wake <- struct{}{}:
	default: // it is awake
	}
}

// Waiting implements dedupe.Journal.
func (j *Journal) Waiting() int { return int(j.waiting.Load()) }

// Damaged implements dedupe.Journal.
func (j *Journal) Damaged() int64 { return j.damaged.Load() }

// Done implements dedupe.Journal.
func (j *Journal) Done(seq uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	s, ok := j.bySeq[seq]
	if !ok {
		return false
	}
	s.done = true
	delete(j.bySeq, seq)
	if j.byKey[s.key] == s {
		delete(j.byKey, s.key)
	}
	j.live -= s.size
	for len(j.slots) > 0 && j.slots[0].done {
		j.slots[0] = nil
		j.slots = j.slots[1:]
	}
	if j.waiting.Add(-1) == 0 {
		j.nudge() // to cut the file back
	}
	return true
}

// Close implements dedupe.Journal: what was accepted is still written. A second
// Close does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		<-j.gone
		return nil
	}
	j.closed = true
	j.mu.Unlock()
	close(j.quit)
	<-j.gone
	j.io.Lock()
	defer j.io.Unlock()
	if err := j.file.Close(); err != nil {
		return fmt.Errorf("journal %s: %w", j.path, err)
	}
	return nil
}

var errNotAJournal = errors.New("it is not a journal of Sidecall, and was left untouched")
