package wrap

import (
	"context"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
)

// calls are those of the client in flight, and what else is waited for at the end.
type calls struct {
	backend.Running

	mu sync.Mutex
	// cancels has how each ends, by its JSON-RPC id, until it is answered or cancelled.
	cancels map[string]context.CancelFunc
}

// begin counts a call in; false where its id is one in flight, or there are to be no more.
func (c *calls) begin(id string, cancel context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancels[id] != nil || !c.Enter() {
		return false
	}
	c.cancels[id] = cancel
	return true
}

// cancel ends the wait of the client for a call, which is not answered any more: MCP wants that.
// One that has no effect ends with it; an effect that may have begun goes on, and is recorded.
func (c *calls) cancel(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cancel := c.cancels[id]
	delete(c.cancels, id)
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
	waits := c.cancels[id] != nil
	delete(c.cancels, id)
	return waits
}

// end waits for the calls in flight, for so long at the most. Then those that have no effect end.
func (c *calls) end(patience time.Duration) {
	c.Shut()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	_ = c.Ended(ctx, "") // each call has an end of its own
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.cancels {
		cancel()
	}
}
