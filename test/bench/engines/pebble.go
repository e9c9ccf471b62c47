package main

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2"
)

type lsm struct{ db *pebble.DB }

func openPebble(dir string) (engine, error) {
	db, err := pebble.Open(dir, &pebble.Options{Logger: quiet{}})
	if err != nil {
		return nil, err
	}
	return lsm{db}, nil
}

func prefixed(space byte, key []byte) []byte { return append([]byte{space}, key...) }

func (l lsm) commit(group []*write) error {
	batch := l.db.NewBatch()
	for _, w := range group {
		key := prefixed('r', w.place)
		if byKey || w.settle {
			if err := l.read(key); err != nil {
				return err
			}
		}
		seq := bigEndian(w.seq)
		err := batch.Set(key, w.record, nil)
		if w.settle {
			err = errors.Join(err, batch.Set(prefixed('o', seq), w.result, nil), batch.Delete(prefixed('c', seq), nil))
		} else {
			err = errors.Join(err, batch.Set(prefixed('c', seq), w.place, nil), batch.Set(prefixed('e', seq), w.place, nil))
		}
		if err != nil {
			return err
		}
	}
	return batch.Commit(pebble.Sync)
}

// read reads a value for the price of it.
func (l lsm) read(key []byte) error {
	_, closer, err := l.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return closer.Close()
}

func (l lsm) expire(n int) error {
	for left := n; left > 0; left -= 1000 {
		it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: []byte("e"), UpperBound: []byte("f")})
		if err != nil {
			return err
		}
		batch := l.db.NewBatch()
		for valid, i := it.First(), 0; valid && i < min(left, 1000); valid, i = it.Next(), i+1 {
			err = errors.Join(err, batch.Delete(prefixed('r', it.Value()), nil),
				batch.Delete(prefixed('o', it.Key()[1:]), nil), batch.Delete(it.Key(), nil))
		}
		if err := errors.Join(err, it.Close(), batch.Commit(pebble.Sync)); err != nil {
			return err
		}
	}
	return nil
}

func (l lsm) close() error { return l.db.Close() }

// quiet is a log that nobody reads.
type quiet struct{ io.Writer }

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(f string, a ...any) {
	panic(f)
}
