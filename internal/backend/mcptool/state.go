package mcptool

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// state is whether calls can be made.
type state struct {
	session *session // nil while there is none
	// opening is not nil while a session is being opened, or is to be: calls then
	// wait a little. Closed when the state is over.
	opening chan struct{}
	// due is when the next try to open one begins; zero while one is under way.
	due time.Time
	// reason says why there is no session.
	reason error
}

// current is the state that counts now.
type current struct{ atomic.Pointer[state] }

// await says that a session is being opened, which calls then wait for; reason is why
// there is none yet.
func (c *current) await(reason error) { c.turn(&state{opening: make(chan struct{}), reason: reason}) }

// turn puts a state in the place of another, and tells those who wait for that.
func (c *current) turn(next *state) {
	if before := c.Swap(next); before.opening != nil {
		close(before.opening)
	}
}

// acquire returns the session for one call; the caller must leave it.
func (c *current) acquire(ctx context.Context) (*session, *tool.Failure) {
	if ctx.Err() != nil {
		return nil, ended(ctx, tool.NotExecuted)
	}
	if st := c.Load(); st.session != nil && st.session.enter() {
		return st.session, nil
	}
	return c.acquireNext(ctx)
}

// acquireNext waits for the next session, unless it cannot come in time.
func (c *current) acquireNext(ctx context.Context) (*session, *tool.Failure) {
	until := time.Now().Add(readyWait)
	timer := time.NewTimer(readyWait)
	defer timer.Stop()
	for {
		st := c.Load()
		switch {
		case st.session != nil && st.session.enter():
			return st.session, nil
		case st.opening == nil || st.due.After(until):
			return nil, downFailure(st)
		}
		select {
		case <-st.opening:
		case <-timer.C:
			return nil, downFailure(c.Load())
		case <-ctx.Done():
			return nil, ended(ctx, tool.NotExecuted)
		}
	}
}
