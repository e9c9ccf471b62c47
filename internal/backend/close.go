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

// Shut lets nothing more in.
func (r *Running) Shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// Ended waits until all has ended, or ctx has. name is the backend's.
func (r *Running) Ended(ctx context.Context, name string) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("backend %s: still closing: %w", name, context.Cause(ctx))
	}
}
