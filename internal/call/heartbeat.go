package call

import (
	"context"
	"sync"
	"time"
)

// heartbeat is the context of an attempt at a backend that reports progress:
// every sign of life starts the timeout of the attempt anew, so that a long
// call is cut off when it hangs and not when it works. The parent, and with it
// the deadline of the call, ends it in any case.
//
// It is a Context of its own because context.WithTimeout cannot be put off, and
// because whoever is cut off must see DeadlineExceeded, not Canceled.
type heartbeat struct {
	context.Context // the parent

	timeout time.Duration
	timer   *time.Timer
	detach  func() bool // from the parent
	done    chan struct{}

	mu  sync.Mutex
	err error
}

// withHeartbeat returns the context; stop ends it.
func withHeartbeat(parent context.Context, timeout time.Duration) *heartbeat {
	h := &heartbeat{Context: parent, timeout: timeout, done: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(timeout, func() { h.end(context.DeadlineExceeded) })
	h.detach = context.AfterFunc(parent, func() { h.end(parent.Err()) })
	return h
}

// beat is a sign of life.
func (h *heartbeat) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A timer that has fired has ended the attempt, or is about to.
	if h.err == nil && h.timer.Stop() {
		h.timer.Reset(h.timeout)
	}
}

// stop releases what the context holds.
func (h *heartbeat) stop() {
	h.end(context.Canceled)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer.Stop()
	h.detach()
}

func (h *heartbeat) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
		close(h.done)
	}
}

// Done implements context.Context.
func (h *heartbeat) Done() <-chan struct{} { return h.done }

// Err implements context.Context.
func (h *heartbeat) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}
