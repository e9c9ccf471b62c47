// Package deadline has contexts whose deadline passes when a test says so: after
// what is to be interrupted has begun, however long that took.
package deadline

import (
	"context"
	"sync"
	"time"
)

// far is when a deadline seems to be, for those who ask.
const far = time.Hour

// On returns a context, and a function that has its deadline pass. It may be
// called any number of times, by any goroutine.
func On() (ctx context.Context, pass func()) {
	d := &deadline{Context: context.Background(), at: time.Now().Add(far), passed: make(chan struct{})}
	return d, sync.OnceFunc(func() { close(d.passed) })
}

// deadline is a context that no timer ends.
type deadline struct {
	context.Context //nolint:containedctx // it is one

	at     time.Time
	passed chan struct{}
}

// Deadline is an hour after On.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done is closed when the deadline passes.
func (d *deadline) Done() <-chan struct{} { return d.passed }

// Err is context.DeadlineExceeded once it has passed.
func (d *deadline) Err() error {
	select {
	case <-d.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
