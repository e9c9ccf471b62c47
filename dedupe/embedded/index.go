package embedded

import (
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/sidecall/sidecall/dedupe"
)

// index finds the place of a record by its key. It is kept in memory alone,
// about 55 bytes per record, and made anew at each Open, which reads the whole
// file anyway.
//
// Thereby records can lie in the file in the order in which they came. Ordered
// by key, which is to say at random, every call would rewrite pages of its own
// all over the file, the more of them the more records there are; in order of
// time the calls of a moment share a few pages at its end.
type index struct {
	seeds [2]maphash.Seed
	mu    sync.RWMutex
	ids   map[digest]uint64
}

// digest stands for a key: 128 bits, seeded per process, so that nobody can
// make two keys meet. Whoever finds an id compares the key in its record.
type digest [2]uint64

func newIndex() *index {
	return &index{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, ids: map[digest]uint64{}}
}

func (x *index) digest(key []byte) digest {
	return digest{maphash.Bytes(x.seeds[0], key), maphash.Bytes(x.seeds[1], key)}
}

// find returns the place of a key; 0 when there is none.
func (x *index) find(d digest) uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.ids[d]
}

// add notes the place of a key, which must have none yet.
func (x *index) add(key []byte, id uint64) error {
	d := x.digest(key)
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, known := x.ids[d]; known {
		return fmt.Errorf("%w: a call has two records", dedupe.ErrCorrupt)
	}
	x.ids[d] = id
	return nil
}

// changes are the places that a transaction gives out and takes back. They
// count for others once it is committed.
type changes map[digest]uint64 // 0: taken back

func (x *index) apply(c changes) {
	if len(c) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for d, id := range c {
		if id == 0 {
			delete(x.ids, d)
		} else {
			x.ids[d] = id
		}
	}
}
