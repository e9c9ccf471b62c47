package wrap

import (
	"context"
	"sync"
	"time"
)

// calls are those of the client in flight.
type calls struct {
	mu sync.Mutex
	// running has how each ends, by its JSON-RPC id, until it is answered or cancelled.
	running map[string]context.CancelFunc
	all     sync.WaitGroup
	over    bool
}

// count counts in what ends by itself; false where there is to be no more.
func (c *calls) count() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.all.Add(1)
	}
	return !c.over
}

// begin counts a call in; false where its id is one in flight, or there are to be no more.
func (c *calls) begin(id string, cancel context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.running[id] != nil {
		return false
	}
	c.running[id] = cancel
	c.all.Add(1)
	return true
}

// cancel ends the wait of the client for a call, which is not answered any more: MCP wants that.
// One that has no effect ends with it; an effect that may have begun goes on, and is recorded.
func (c *calls) cancel(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cancel := c.running[id]
	delete(c.running, id)
	if cancel == nil {
		return false
	}
	cancel()
	return true
}

// answer reports whether the client still waits for a call, which is then over.
func (c *calls) answer(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	waits := c.running[id] != nil
	delete(c.running, id)
	return waits
}

// end waits for the calls in flight, for so long at the most. Then those that have no effect end.
func (c *calls) end(patience time.Duration) {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	ended := make(chan struct{})
	go func() { c.all.Wait(); close(ended) }() // each call has an end of its own
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.running {
		cancel()
	}
}
