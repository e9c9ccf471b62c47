package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sidecall/sidecall/dedupe"
)

// ensure creates the file when there is none. It comes into being whole: made
// under another name and linked into place, so that a crash leaves either
// nothing or a store, and of two processes only one makes it. A new one is said to be so:
// whoever expected another has named it wrongly, and calls would run again.
func ensure(path string, log *slog.Logger) (err error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	temp := f.Name()
	defer func() { err = errors.Join(err, os.Remove(temp)) }()
	if err := f.Close(); err != nil {
		return err
	}
	if err := create(temp); err != nil {
		return err
	}
	switch err := os.Link(temp, path); {
	case err == nil:
		log.Info("the store is new: it knows of no call", "path", path)
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	return syncDir(dir)
}

// create writes an empty store.
func create(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range topBuckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		t := &txn{meta: tx.Bucket(metaBucket)}
		return errors.Join(
			t.meta.Put(formatKey, sealed(formatKey, []byte(format))),
			t.setNumber(clockKey, time.Now().UnixMilli()),
			t.setNumber(outputBytesKey, 0))
	})
	return errors.Join(err, db.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// inspect checks the file while nobody can write to it, before the engine sees
// it: the engine trusts what it reads. It returns the index of the records and
// the transaction that they are the state after.
func inspect(path string, wait time.Duration) (*index, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("it is not a regular file: set store.embedded.path to one, or to a name that is free")
	}
	if info.Size() == 0 {
		// bbolt would make a new database of it, and every record be forgotten.
		return nil, 0, fmt.Errorf("%w: the file is empty", dedupe.ErrCorrupt)
	}
	lock, err := openBolt(path, bbolt.Options{Timeout: wait, ReadOnly: true})
	if err != nil {
		return nil, 0, err
	}
	index, newest, err := verify(path)
	return index, newest, errors.Join(err, lock.Close())
}

// open inspects the file and opens it for writing, locked. The engine cannot
// make one lock of the other, so another process may come between; then the
// file is inspected again.
func (d *database) open() error {
	for range 3 {
		index, inspected, err := inspect(d.path, d.options.LockWait)
		if err != nil {
			return err
		}
		if err := d.lock(); err != nil {
			return err
		}
		d.index = index
		tx, err := d.db.Begin(false)
		if err != nil {
			return errors.Join(err, d.release())
		}
		opened := int64(tx.ID())
		d.durable.Store(opened)
		if err := tx.Rollback(); err != nil || opened == inspected {
			return err
		}
		if err := d.release(); err != nil {
			return err
		}
	}
	return errors.New("other processes keep writing to it")
}

// lock opens the file for writing.
func (d *database) lock() error {
	db, err := openBolt(d.path, bbolt.Options{
		Timeout: d.options.LockWait,
		MaxSize: int(d.options.MaxFileBytes),
		// The list of free pages is found out at Open. Written at each commit,
		// it would make every call slower after many records have expired.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			d.file = f
			return f, err
		},
	})
	if err != nil {
		return err
	}
	d.db = db
	here, err := d.file.Stat()
	if err != nil {
		return errors.Join(err, db.Close())
	}
	there, err := os.Stat(d.path)
	if err == nil && !os.SameFile(here, there) {
		err = errors.New("the file was replaced while it was opened")
	}
	if err == nil {
		d.original, err = newOriginal(d.path, d.file, here, db.Info().PageSize)
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

// openBolt opens a file that exists. Whatever the engine chokes on is damage; it then
// leaves the file open, and locked, which nobody would ever let go of.
func openBolt(path string, options bbolt.Options) (db *bbolt.DB, err error) {
	var file *os.File
	open := options.OpenFile
	if open == nil {
		open = os.OpenFile
	}
	options.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := open(name, flag, mode)
		file = f
		return f, err
	}
	defer func() {
		if db == nil && file != nil && errors.Is(err, dedupe.ErrCorrupt) {
			_ = file.Close() // the engine may have done so
		}
	}()
	defer damaged(&err)
	db, err = bbolt.Open(path, 0o600, &options)
	var system syscall.Errno
	if err == nil || errors.Is(err, berrors.ErrTimeout) || errors.As(err, &system) {
		return db, err
	}
	return nil, fmt.Errorf("%w: %w", dedupe.ErrCorrupt, err)
}

// damaged turns a panic of the engine, or a page that cannot be read, into an
// error: it has met a file that is not as it left it.
func damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", dedupe.ErrCorrupt, p)
	}
}

// resumeBatch is how many open claims are decided in one transaction.
const resumeBatch = 4096

// resume starts the clock and decides the claims that an earlier process left
// open. It holds the only lock, so whoever had them is gone.
func (d *database) resume() error {
	var highWater int64
	d.clock = newClock(time.Time{})
	if _, err := d.view(func(t *txn) (err error) {
		highWater, err = t.number(clockKey)
		return err
	}); err != nil {
		return err
	}
	d.clock = newClock(dedupe.Instant(highWater).Add(time.Millisecond))
	if ahead := time.Until(d.clock.now()); ahead > time.Minute {
		d.options.Log.Warn("the wall clock is behind the store's last record; the store goes on with its own time",
			"path", d.path, "ahead", ahead.Round(time.Second))
	}
	var after []byte
	for {
		unknown, free := 0, 0
		last, err := d.decideClaims(after, &unknown, &free)
		if err != nil {
			return err
		}
		if unknown+free > 0 {
			d.options.Log.Warn("calls were cut off when the last process ended", "path", d.path, "unknown", unknown, "repeatable", free)
		}
		if last == nil {
			return nil
		}
		after = last
	}
}

// decideClaims decides a batch of open claims, beginning after an id. It returns
// the last one it decided, nil when there are no more.
func (d *database) decideClaims(after []byte, unknown, free *int) (last []byte, err error) {
	defer d.damaged(&err)
	t, err := d.beginWrite()
	if err != nil {
		return nil, err
	}
	ids := openClaims(t, after)
	for _, id := range ids {
		e, err := decodeEntry(id, t.records.Get(id))
		if err != nil {
			return nil, errors.Join(err, d.rollback(t.tx))
		}
		if !t.now.Before(e.expires) {
			continue // forgotten, and swept soon
		}
		// Its lease ends here and now. What an observer then makes of it is
		// final for a call that must not repeat; any other stays claimed with
		// its lease out, free for the next request and still its owner's to
		// settle should a journal of settlements be replayed.
		next := e.Record
		next.LeaseUntil = t.now
		if observed := next.Observed(t.now); observed.State == dedupe.Unknown {
			next = observed
			*unknown++
		} else {
			*free++
		}
		if err := t.put(e, next, e.Retention); err != nil {
			return nil, errors.Join(err, d.rollback(t.tx))
		}
	}
	if len(ids) == 0 {
		return nil, d.rollback(t.tx)
	}
	return ids[len(ids)-1], d.finishTx(t)
}

// openClaims returns the next ids of claimed records after one.
func openClaims(t *txn, after []byte) (ids [][]byte) {
	c := t.claims.Cursor()
	id, _ := c.First()
	if after != nil {
		if id, _ = c.Seek(after); bytes.Equal(id, after) {
			id, _ = c.Next()
		}
	}
	for ; id != nil && len(ids) < resumeBatch; id, _ = c.Next() {
		ids = append(ids, bytes.Clone(id))
	}
	return ids
}
