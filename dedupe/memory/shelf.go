package memory

import (
	"container/heap"
	"time"
)

// sweepBatch is how many expired entries of a kind one request clears away at the
// most. More than one, so that sweeping outruns adding.
const sweepBatch = 4

// shelf keeps values of a kind until their time is over.
type shelf[K comparable, V any] struct {
	entries map[K]shelved[V]
	queue   byTime[K]
}

type shelved[V any] struct {
	value   V
	expires time.Time
}

// deadline is when the time of a key is over, unless it was given more since.
type deadline[K any] struct {
	at  time.Time
	key K
}

// get returns a value as of now.
func (s *shelf[K, V]) get(key K, now time.Time) (value V, found bool) {
	e, found := s.entries[key]
	if !found || !now.Before(e.expires) {
		return value, false
	}
	return e.value, true
}

// held returns what is there, also when its time is over and it was not swept yet.
func (s *shelf[K, V]) held(key K) (value V, held bool) {
	e, held := s.entries[key]
	return e.value, held
}

// put stores a value. Its place in the queue is corrected when it is due.
func (s *shelf[K, V]) put(key K, value V, expires time.Time) {
	if s.entries == nil {
		s.entries = map[K]shelved[V]{}
	}
	if _, known := s.entries[key]; !known {
		heap.Push(&s.queue, deadline[K]{expires, key})
	}
	s.entries[key] = shelved[V]{value, expires}
}

// dropFirst drops the entry that is first in the queue, and returns it.
func (s *shelf[K, V]) dropFirst() V {
	key := heap.Pop(&s.queue).(deadline[K]).key
	dropped := s.entries[key]
	delete(s.entries, key)
	return dropped.value
}

// sweep drops a few entries whose time is over. A key that was given more time since
// it was queued goes back into the queue: that is cheaper than to move it each time.
func (s *shelf[K, V]) sweep(now time.Time, dropped func(V)) {
	for range sweepBatch {
		if len(s.queue) == 0 || now.Before(s.queue[0].at) {
			return
		}
		if key := s.queue[0].key; now.Before(s.entries[key].expires) {
			s.queue[0].at = s.entries[key].expires
			heap.Fix(&s.queue, 0)
		} else if v := s.dropFirst(); dropped != nil {
			dropped(v)
		}
	}
}

// byTime is a queue of keys in the order in which their time is over.
type byTime[K any] []deadline[K]

func (b byTime[K]) Len() int           { return len(b) }
func (b byTime[K]) Less(i, j int) bool { return b[i].at.Before(b[j].at) }
func (b byTime[K]) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byTime[K]) Push(x any)        { *b = append(*b, x.(deadline[K])) }

func (b *byTime[K]) Pop() any {
	last := len(*b) - 1
	x := (*b)[last]
	(*b)[last] = deadline[K]{}
	*b = (*b)[:last]
	return x
}
