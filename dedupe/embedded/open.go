package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sidecall/sidecall/dedupe"
)

// format names the layout of the file. Another layout gets another name.
const format = "sidecall records 1"

// ensure creates the file when there is none. It comes into being whole: made
// under another name and linked into place, so that a crash leaves either
// nothing or a store, and of two processes only one makes it.
func ensure(path string) (err error) {
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
	if err := os.Link(temp, path); err != nil && !errors.Is(err, fs.ErrExist) {
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
// it: the engine trusts what it reads.
func inspect(path string, wait time.Duration) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	if info.Size() == 0 {
		// bbolt would make a new database of it, and every record be forgotten.
		return fmt.Errorf("%w: the file is empty", dedupe.ErrCorrupt)
	}
	lock, err := openBolt(path, bbolt.Options{Timeout: wait, ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(verify(path), lock.Close())
}

// open opens the file for writing, locked.
func (s *Store) open() error {
	db, err := openBolt(s.path, bbolt.Options{
		Timeout: s.options.LockWait,
		MaxSize: s.options.MaxFileBytes,
		// The list of free pages is found out at Open. Written at each commit,
		// it would make every call slower after many records have expired.
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		NoStatistics:   true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			s.file = f
			return f, err
		},
	})
	if err != nil {
		return err
	}
	s.db = db
	here, err := s.file.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(s.path); err == nil && !os.SameFile(here, there) {
			err = errors.New("the file was replaced while it was opened")
		}
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

// openBolt opens a file that exists. Whatever the engine chokes on is damage.
func openBolt(path string, options bbolt.Options) (db *bbolt.DB, err error) {
	defer damaged(&err)
	db, err = bbolt.Open(path, 0o600, &options)
	var system syscall.Errno
	if err == nil || errors.Is(err, bbolt.ErrTimeout) || errors.As(err, &system) {
		return db, err
	}
	return nil, fmt.Errorf("%w: %w", dedupe.ErrCorrupt, err)
}

// resumeBatch is how many open claims are decided in one transaction.
const resumeBatch = 4096

// resume starts the clock and decides the claims that an earlier process left
// open. It holds the only lock, so whoever had them is gone.
func (s *Store) resume() error {
	var highWater int64
	s.clock = newClock(time.Time{})
	if _, err := s.view(func(t *txn) (err error) {
		highWater, err = t.number(clockKey)
		s.durable.Store(int64(t.tx.ID()))
		return err
	}); err != nil {
		return err
	}
	s.clock = newClock(instant(highWater).Add(time.Millisecond))
	if ahead := s.clock.now().Sub(time.Now()); ahead > time.Minute {
		s.options.Log.Warn("the wall clock is behind the store's last record; the store goes on with its own time",
			"path", s.path, "ahead", ahead.Round(time.Second))
	}
	var after []byte
	for {
		unknown, free := 0, 0
		last, err := s.decideClaims(after, &unknown, &free)
		if err != nil {
			return err
		}
		if unknown+free > 0 {
			s.options.Log.Warn("calls were cut off when the last process ended", "path", s.path, "unknown", unknown, "repeatable", free)
		}
		if last == nil {
			return nil
		}
		after = last
	}
}

// decideClaims decides a batch of open claims, beginning after a key. It
// returns the last key it decided, nil when there are no more.
func (s *Store) decideClaims(after []byte, unknown, free *int) (last []byte, err error) {
	defer damaged(&err)
	tx, err := s.db.Begin(true)
	if err != nil {
		return nil, err
	}
	t := newTxn(tx, s)
	keys := openClaims(t, after)
	for _, key := range keys {
		e, err := decodeEntry(key, t.records.Get(key))
		if err != nil {
			return nil, errors.Join(err, s.rollback(tx))
		}
		// Its lease ends here and now. What an observer then makes of it is
		// final for a call that must not repeat; any other stays claimed with
		// its lease out, free for the next request and still its owner's to
		// settle should a journal of settlements be replayed.
		next := e
		next.LeaseUntil = t.now
		if observed := next.Observed(t.now); observed.State == dedupe.Unknown {
			next.Record = observed
			*unknown++
		} else {
			*free++
		}
		if err := t.put(key, e, next); err != nil {
			return nil, errors.Join(err, s.rollback(tx))
		}
	}
	if len(keys) == 0 {
		return nil, s.rollback(tx)
	}
	return keys[len(keys)-1], s.finishTx(t)
}

// openClaims returns the next keys of claimed records after a key.
func openClaims(t *txn, after []byte) (keys [][]byte) {
	c := t.claims.Cursor()
	key, _ := c.First()
	if after != nil {
		if key, _ = c.Seek(after); string(key) == string(after) {
			key, _ = c.Next()
		}
	}
	for ; key != nil && len(keys) < resumeBatch; key, _ = c.Next() {
		keys = append(keys, append([]byte(nil), key...))
	}
	return keys
}
