package memory

import (
	"container/heap"
	"time"
)

// sweepBatch is how many expired entries of a kind one request clears away at the
// most. More than one, so that sweeping outruns adding.
const sweepBatch = 4

// deadlines is a queue of keys in the order in which their time is over.
type deadlines[K any] []deadline[K]

type deadline[K any] struct {
	at  time.Time
	key K
}

func (d *deadlines[K]) push(at time.Time, key K) {
	heap.Push((*byTime[K])(d), deadline[K]{at, key})
}

// due returns the first key if its time is over at now.
func (d *deadlines[K]) due(now time.Time) (key K, ok bool) {
	if len(*d) == 0 || now.Before((*d)[0].at) {
		return key, false
	}
	return (*d)[0].key, true
}

// pop removes and returns the first key; there must be one.
func (d *deadlines[K]) pop() K {
	return heap.Pop((*byTime[K])(d)).(deadline[K]).key
}

// sweep drops a few keys whose time is over. A key that was given more time since
// it was queued goes back into the queue: that is cheaper than to move it each time.
func (d *deadlines[K]) sweep(now time.Time, expires func(K) time.Time, drop func(K)) {
	for range sweepBatch {
		key, due := d.due(now)
		if !due {
			return
		}
		d.pop()
		if at := expires(key); now.Before(at) {
			d.push(at, key)
		} else {
			drop(key)
		}
	}
}

// byTime is deadlines as container/heap wants it.
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
