package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// unfinished is what the name of a store ends in that is being made.
const unfinished = ".unfinished"

// ensure creates the file when there is none. It comes into being whole: made under another name,
// of which one process at a time has the lock, and renamed, so that a crash leaves either nothing
// or a store, and of two processes only one makes it. A new one is said to be so: whoever expected
// another has named it wrongly, and calls would run again.
func ensure(path string, log *slog.Logger) (err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) { // a link to nothing is there too
		return err
	}
	f, err := os.OpenFile(path+unfinished, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("its directory does not exist: create it, or choose another path")
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := lock(f, f.Name())
	if err != nil {
		return err
	}
	// What a process that was killed has left is written over; anything else is somebody's.
	if info.Size() > segmentsAt || !info.Mode().IsRegular() {
		return fmt.Errorf("%s is in the way: move it elsewhere", f.Name())
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) { // another has made it meanwhile
		return errors.Join(err, os.Remove(f.Name()))
	}
	heads := make([]byte, segmentsAt)
	for slot := range 2 {
		h := head{commit: int64(slot), clock: time.Now().UnixMilli()}
		copy(heads[slot*pageSize:], h.encode(nil, slot))
	}
	_, err = f.Write(heads)
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	log.Info("the store is new: it knows of no call", "path", path)
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// load reads the whole log, checks it, and makes the index. Nothing is changed.
func (d *database) load() error {
	f := d.file
	other, err := f.readHeads()
	if err != nil {
		return err
	}
	sum, err := f.checksum(f.durable)
	if err != nil && !errors.Is(err, dedupe.ErrCorrupt) {
		return err
	}
	if err != nil || sum != f.sum {
		// The last commit did not come to its end. Nobody was told of it; the one before it
		// was on the disk when it began.
		if other.end != f.durable {
			return corrupt("the last commit is not whole, and neither head is of the one before")
		}
		other.commit = f.commit
		f.head, f.slot = other, 1-f.slot
		f.durable = f.end
		if err := f.readSegments(); err != nil {
			return err
		}
	}
	d.clock = newClock(dedupe.Instant(f.clock).Add(time.Millisecond))
	d.index.live.until(dedupe.Millis(d.clock.now()))
	if err := f.scan(f.tail, f.end, func(read frame) (bool, error) {
		if read.kind != outputRow {
			f.largest = max(f.largest, int64(read.size))
		}
		return true, d.index.read(f, read)
	}); err != nil {
		return err
	}
	d.index.pass(dedupe.Millis(d.clock.now()))
	// What a process has written that was killed may not be on the disk. It is before anybody
	// is told of it, and before a head says so.
	return f.sync()
}

func (x *index) read(from *file, f frame) error {
	if f.kind == recordRow {
		if _, err := dedupe.DecodeSealed(f.value); err != nil {
			return err
		}
	}
	c := change{frame: f, of: x.digest(f.kind, f.key)}
	if before, known := x.rows[c.of]; known && f.kind == indexRow {
		replaced, err := from.readFrame(before.place)
		if err != nil {
			return err
		}
		c.outdated = x.postings(replaced)
	}
	x.change(&c)
	return nil
}

// resumeBatch is how many open claims are decided in one transaction.
const resumeBatch = 4096

// resume decides the claims that an earlier process left open. It holds the only lock, so
// whoever had them is gone.
func (d *database) resume() error {
	if ahead := time.Until(d.clock.now()); ahead > time.Minute {
		d.options.Log.Warn("the wall clock is behind the store's last record; the store goes on with its own time",
			"path", d.file.path, "ahead", ahead.Round(time.Second))
	}
	for batch := range slices.Chunk(slices.Concat(d.index.undecided.chunks...), resumeBatch) {
		unknown, free := 0, 0
		decision := newOperation(own(dedupe.Frees, 0, func(t *txn) { unknown, free = decide(t, batch) }))
		switch err := errors.Join(d.transactReclaiming([]*operation{decision}), decision.err); {
		case errors.Is(err, dedupe.ErrFull): // then their leases run out
			d.options.Log.Warn("the store is full: calls that were cut off are decided when their leases have run out", "path", d.file.path)
			return nil
		case err != nil:
			return err
		}
		if unknown+free > 0 {
			d.options.Log.Warn("calls were cut off when the last process ended", "path", d.file.path, "unknown", unknown, "repeatable", free)
		}
	}
	return nil
}

// decide ends the leases of claims here and now. What an observer then makes of one is
// final for a call that must not repeat; any other stays claimed with its lease out, free for
// the next request and still its owner's to settle should a journal of settlements be
// replayed.
func decide(t *txn, batch []found) (unknown, free int) {
	for _, r := range batch {
		key, stored := t.record(r.of)
		if stored.State != dedupe.Claimed {
			continue
		}
		stored.LeaseUntil = t.now
		if observed := stored.Observed(t.now); observed.State == dedupe.Unknown {
			stored.Record = observed
			unknown++
		} else {
			free++
		}
		t.SetCall(key, &stored.Record, stored.Retention, nil)
	}
	return unknown, free
}
