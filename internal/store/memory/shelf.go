package memory

import (
	"container/heap"
	"slices"
	"time"
)

// sweepBatch is how many expired entries of a kind one request clears away at the
// most. More than one, so that sweeping outruns adding.
const sweepBatch = 4

// shelf keeps values of a kind until their time is over.
type shelf[K comparable, V any] struct {
	entries map[K]*shelved[K, V]
	queue   byTime[K, V]
	bytes   int64 // of all of them together
}

type shelved[K comparable, V any] struct {
	key     K
	value   V
	bytes   int64
	expires time.Time
	place   int // in the queue
}

// get returns a value as of now.
func (s *shelf[K, V]) get(key K, now time.Time) (value V, found bool) {
	e, found := s.entries[key]
	if !found || !now.Before(e.expires) {
		return value, false
	}
	return e.value, true
}

// fits reports that there is room for a value among so many entries, and so many bytes of all.
// What has expired takes its room until it is swept.
func (s *shelf[K, V]) fits(key K, bytes int64, entries int, most int64) bool {
	e, held := s.entries[key]
	if held {
		bytes -= e.bytes
	}
	return (held || len(s.entries) < entries) && s.bytes+bytes <= most
}

// put stores a value of so many bytes, as far as they are counted; until the time that it
// had when there is none.
func (s *shelf[K, V]) put(key K, value V, bytes int64, expires time.Time) {
	if s.entries == nil {
		s.entries = map[K]*shelved[K, V]{}
	}
	e, known := s.entries[key]
	if !known {
		e = &shelved[K, V]{key: key}
		s.entries[key] = e
	}
	s.bytes += bytes - e.bytes
	e.value, e.bytes = value, bytes
	if !expires.IsZero() {
		e.expires = expires
	}
	if known {
		heap.Fix(&s.queue, e.place)
	} else {
		heap.Push(&s.queue, e)
	}
}

// bound drops the entries that expire first while there are more than so many, or than so
// many bytes.
func (s *shelf[K, V]) bound(entries int, bytes int64) {
	for len(s.entries) > entries || s.bytes > bytes {
		s.dropFirst()
	}
}

// sweep drops a few entries whose time is over.
func (s *shelf[K, V]) sweep(now time.Time) {
	for n := 0; n < sweepBatch && len(s.queue) > 0 && !now.Before(s.queue[0].expires); n++ {
		s.dropFirst()
	}
}

func (s *shelf[K, V]) dropFirst() {
	e := heap.Pop(&s.queue).(*shelved[K, V])
	s.bytes -= e.bytes
	delete(s.entries, e.key)
}

// byTime is a queue of entries in the order in which their time is over.
type byTime[K comparable, V any] []*shelved[K, V]

func (b byTime[K, V]) Len() int           { return len(b) }
func (b byTime[K, V]) Less(i, j int) bool { return b[i].expires.Before(b[j].expires) }

func (b byTime[K, V]) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].place, b[j].place = i, j
}

func (b *byTime[K, V]) Push(x any) {
	e := x.(*shelved[K, V])
	e.place = len(*b)
	*b = append(*b, e)
}

func (b *byTime[K, V]) Pop() any {
	last := len(*b) - 1
	e := (*b)[last]
	*b = slices.Delete(*b, last, last+1) // which lets go of it
	return e
}
