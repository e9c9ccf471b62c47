package server

import (
	"sync"

	"github.com/sidecall/sidecall/dedupe"
)

// atWork are the calls that this process is running, each from its claim to its
// settlement. Dedupe knows no more of one whose claim it has lost.
type atWork struct {
	mu    sync.Mutex
	calls map[*call]struct{} // as many as Executor.Slots lets in
}

// begin notes a call until the returned function is called.
func (a *atWork) begin(c *call) (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = map[*call]struct{}{}
	}
	a.calls[c] = struct{}{}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.calls, c)
	}
}

// has reports whether there is a call with a key. It looks at all of them: few
// ask, and every call would have to pay for an index.
func (a *atWork) has(key dedupe.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.calls {
		if c.key() == key {
			return true
		}
	}
	return false
}
