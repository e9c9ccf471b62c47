package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/failpoint"
)

// Options of a Store; zero values mean the defaults.
type Options struct {
	// LockWait is how long Open waits for another process to let go of the
	// file, as one that is just shutting down does. Default 2 s.
	LockWait time.Duration
	// MaxBytes bounds the file; what would need more gets dedupe.ErrFull
	// until records expire. 0 means no bound but the disk.
	MaxBytes int64
	// Log is told what an operator should know. Default: nobody.
	Log *slog.Logger
}

type database struct {
	options Options
	clock   clock

	// writing is held by who may change something, in scratch.
	writing sync.Mutex
	scratch txn
	// mu is held for writing while a commit takes effect, for reading while somebody looks.
	// Only the committer changes what it guards.
	mu    sync.RWMutex
	file  *file
	index *index

	// full is why a new call would be refused, as of the last tidying; nil while there is room.
	full atomic.Pointer[error]
	// refused is that something was, since there was room the last time: writing guards it.
	refused bool

	// life ends, with the cause, when nobody has to wait for the committer any more: the
	// store has failed, or the committer has ended.
	life context.Context
	end  context.CancelCauseFunc
}

// fail makes the store refuse everything from now on, once and for good. What the disk or the
// kernel did with data that it failed to write is unknown, and a second try
// that seems to succeed proves nothing about the first. Nobody waits any longer
// for the committer, which may be stuck.
func (d *database) fail(cause error) error {
	err := &dedupe.FailedError{File: d.file.path, Cause: cause}
	if d.end(err); errors.Is(context.Cause(d.life), err) { // and not an earlier one
		d.options.Log.Error("the store has failed: calls with an effect are refused until its file is seen to and the sidecar started anew",
			"path", d.file.path, "error", cause)
	}
	return err
}

// dies makes an error of a panic in the middle of a commit: nobody knows what the file holds.
func (d *database) dies(err *error) {
	if p := recover(); p != nil {
		*err = d.fail(fmt.Errorf("%w: %v", dedupe.ErrPanic, p))
	}
}

// transact applies operations in one transaction, and commits it if any of them changed
// something. One that fails leaves nothing behind, and has its error.
func (d *database) transact(ops []*operation) error {
	t := d.begin()
	least := int64(0)
	for _, op := range ops {
		before, frames := len(t.changes), len(t.frames)
		if op.err = t.survive(op.Apply); op.err != nil {
			t.rollback(before, frames)
		} else if op.Demand != dedupe.Frees && len(t.changes) != before {
			least = d.file.reserve()
		}
	}
	if len(t.changes) == 0 {
		return nil
	}
	if d.wasteful() {
		if err := t.clean(4*len(t.frames)+segmentSize, math.MaxInt); err != nil {
			return err
		}
	}
	return d.commit(t, max(least, 1)+partsOf(t.largest))
}

// commit makes a transaction durable, and then known. Only an error that wraps dedupe.ErrFull
// leaves the store as it was before; after any other, nobody knows what the file holds. least
// is how many segments have to be left for others.
func (d *database) commit(t *txn, least int64) error {
	f := d.file
	// Failpoints count the commits of calls: that which only lets go of what has expired is none.
	hit := func(place failpoint.Name) {
		if len(t.frames) > 0 {
			failpoint.Hit(place)
		}
	}
	// What is written to a file that is gone is not told as stored, and a copy that
	// somebody has put there is not spoiled.
	if err := f.asLeft(); err != nil {
		return d.fail(err)
	}
	before := f.head
	next := head{commit: before.commit + 1, clock: t.ms(), tail: t.tail, durable: before.end, end: before.end + int64(len(t.frames))}
	next.sum = int64(checksum(next.durable, t.frames))
	err := f.makeFree(partsOf(next.end)-partsOf(before.end), least)
	if err == nil {
		hit(failpoint.CommitUnwritten)
		err = f.writeLog(t.frames)
	}
	if err == nil {
		err = f.writeHead(1-f.slot, next)
	}
	if errors.Is(err, dedupe.ErrFull) {
		return err
	}
	if err == nil {
		hit(failpoint.CommitUnsynced)
		err = f.sync()
		hit(failpoint.CommitSynced)
	}
	if err == nil {
		err = f.confirm()
	}
	if err != nil {
		return d.fail(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.follow(before)
	f.largest = t.largest
	for i := range t.changes {
		d.index.change(&t.changes[i])
	}
	d.index.pass(t.ms())
	return nil
}

// slack is how much of the log need not be live, however little is.
const slack = 4 * segmentSize

func (d *database) dead() int64 { return d.file.end - d.file.tail - d.index.live.bytes }

func (d *database) wasteful() bool { return d.dead() > d.index.live.bytes+slack }

// pass lets go of what has expired, as far as nobody has to move anything for it.
func (d *database) pass() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.index.pass(dedupe.Millis(d.clock.now()))
}

// transactReclaiming is transact, with the room that can be made for it.
func (d *database) transactReclaiming(ops []*operation) (err error) {
	d.writing.Lock()
	defer d.writing.Unlock()
	defer d.dies(&err)
	defer func() { d.refused = d.refused || errors.Is(err, dedupe.ErrFull) }()
	d.pass()
	most := int64(16 * mostCleaned)
	for _, op := range ops {
		most += leastDead * int64(op.Bytes)
	}
	end := min(d.file.end, d.file.tail+most) // having gone through all of that, it gives up
	for again := 1; ; again *= 2 {           // to apply a large group costs more than to go through the log
		err := d.transact(ops)
		if !errors.Is(err, dedupe.ErrFull) || d.file.tail >= end {
			return err
		}
		for i := 0; i < again && d.file.tail < end; i++ {
			if progress, why := d.reclaim(); why != nil || !progress && i == 0 {
				return cmp.Or(why, err)
			} else if !progress {
				break
			}
		}
	}
}

// mostCleaned bounds the bytes of a transaction that only cleans.
const mostCleaned = 1 << 20

// leastDead is which part of the log is dead at least when it is gone through for room.
const leastDead = 8

// reclaim frees room at the beginning of the log. It reports whether there was some to be had
// for what it costs. What is moved may make the file grow, if it can.
func (d *database) reclaim() (progress bool, err error) {
	if dead := d.dead(); dead < segmentSize || dead < (d.file.end-d.file.tail)/leastDead {
		return false, nil
	}
	free := int64(len(d.file.free))
	for _, most := range [...]int64{free + max(d.file.most-d.file.segments, 0), free} {
		t := d.begin()
		before := d.file.head
		rest := partsOf(before.end)*partSize - before.end // of the last one
		if err := t.clean(mostCleaned, int(most*partSize+rest)); err != nil || t.tail == before.tail {
			return false, err
		}
		if err = d.commit(t, 0); !errors.Is(err, dedupe.ErrFull) {
			return err == nil, err
		}
	}
	return false, err
}

// vacancy reports why a new call would be refused, and fails the store when nobody can tell. A
// file system that writes nothing in place may be full while the file is not: when something was
// refused, a commit that changes nothing shows it.
func (d *database) vacancy() error {
	err := d.file.makeFree(1, d.file.reserve()+partsOf(d.file.largest))
	switch {
	case err == nil && d.refused:
		err = d.commit(d.begin(), 0)
	case err != nil && !errors.Is(err, dedupe.ErrFull):
		err = d.fail(err)
	}
	d.refused = d.refused && err != nil
	return err
}

// tell says in Ping, and once in the log, whether there is room for a new call.
func (d *database) tell(full error) {
	if full == nil {
		if d.full.Swap(nil) != nil {
			d.options.Log.Info("the store has room again", "path", d.file.path)
		}
	} else if d.full.Swap(&full) == nil {
		d.options.Log.Warn("the store is full: calls with an effect are refused until there is room", "path", d.file.path, "error", full)
	}
}

// clock is the store's clock. Within a process it follows the monotonic clock,
// so that setting the wall clock moves no lease; across restarts it starts at
// the wall clock, but never before the last instant that the store has
// recorded. Its unit is the millisecond.
type clock struct {
	began time.Time // as the process has it
	first time.Time // what was that for the store: they may be further apart than a Duration is long
}

func newClock(highWater time.Time) clock {
	now := time.Now()
	return clock{now, slices.MaxFunc([]time.Time{now, highWater}, time.Time.Compare)}
}

func (c clock) now() time.Time {
	return c.first.Add(time.Since(c.began)).Truncate(time.Millisecond).UTC()
}
