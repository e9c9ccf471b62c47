package backend

import (
	"context"
	"fmt"
	"sync"
)

// Running counts what a backend waits for when it closes. Each has an end of its own.
type Running struct {
	sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// Enter counts something in until it is Done; false when the backend is closed.
func (r *Running) Enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.Add(1)
	}
	return !r.closed
}

// Close lets nothing more in, has end ask what there is to end, and waits for it until ctx ends.
func (r *Running) Close(ctx context.Context, name string, end func()) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	end()
	return Closed(ctx, name, &r.WaitGroup)
}

// Closed waits until all that a backend has running has ended, or ctx has.
func Closed(ctx context.Context, name string, running *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		running.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("backend %s: still closing: %w", name, context.Cause(ctx))
	}
}
