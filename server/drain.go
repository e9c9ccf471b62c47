package server

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Drain lets a sidecar end without losing a call: what has started may finish,
// what has not is handed back as UNAVAILABLE, which is safe to send again.
type Drain struct {
	mu       sync.Mutex
	inFlight int
	draining bool
	idle     chan struct{} // closed when draining and nothing is in flight
}

// NewDrain returns a Drain that lets everything in.
func NewDrain() *Drain { return &Drain{idle: make(chan struct{})} }

// errDraining promises that nothing was started.
var errDraining = status.Error(codes.Unavailable, "the sidecar is draining; nothing was started, send the request again to another one or later")

// Enter counts one request in, or refuses it.
func (d *Drain) Enter() (leave func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.draining {
		return nil, errDraining
	}
	d.inFlight++
	return d.leave, nil
}

func (d *Drain) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inFlight--; d.inFlight == 0 && d.draining {
		close(d.idle)
	}
}

// Start refuses further requests and waits for those in flight, at most until ctx
// ends. It returns how many were still in flight then.
func (d *Drain) Start(ctx context.Context) int {
	d.mu.Lock()
	if !d.draining {
		d.draining = true
		if d.inFlight == 0 {
			close(d.idle)
		}
	}
	d.mu.Unlock()
	select {
	case <-d.idle:
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inFlight
}

// Draining reports whether Start was called.
func (d *Drain) Draining() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.draining
}
