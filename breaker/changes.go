package breaker

import (
	"sync"
	"sync/atomic"
)

// maxChanges bounds the changes that wait for a slow listener. Beyond it the
// last one is drawn out to the new state: the listener skips states, but sees
// no gap and ends at the truth.
const maxChanges = 16

// changes carries changes of state from under inner's mutex, where they happen,
// to the listener, who is called without a lock.
type changes struct {
	name     string
	listener func(name string, from, to State)

	waiting atomic.Int32 // len(queue), to be asked without mu

	mu         sync.Mutex
	queue      []change
	delivering bool
}

type change struct{ from, to State }

// add queues a change. It never blocks for long: mu is held for no call of
// anything.
func (c *changes) add(from, to State) {
	if c.listener == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.queue); n == maxChanges {
		c.queue[n-1].to = to
		return
	}
	c.queue = append(c.queue, change{from, to})
	c.waiting.Store(int32(len(c.queue)))
}

// deliver tells the listener what is queued. When another goroutine is at it, or
// the listener itself came back here, that one goes on with the rest: this is
// what keeps the order.
func (c *changes) deliver() {
	if c.waiting.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivering {
		return
	}
	c.delivering = true
	// Also when the listener panics: the caller has that, the next change is
	// delivered again.
	defer func() { c.delivering = false }()
	for len(c.queue) > 0 {
		next := c.queue[0]
		c.queue = c.queue[1:]
		c.waiting.Store(int32(len(c.queue)))
		c.tell(next)
	}
	c.queue = nil
}

// tell calls the listener without mu, and comes back with it even from a panic.
func (c *changes) tell(next change) {
	c.mu.Unlock()
	defer c.mu.Lock()
	c.listener(c.name, next.from, next.to)
}
