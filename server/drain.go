package server

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Drain lets a sidecar end without losing a call: what has started may finish,
// what has not is handed back as UNAVAILABLE, which is safe to send again.
type Drain struct {
	mu       sync.Mutex
	inFlight int
	draining bool
	idle     chan struct{} // closed when draining and nothing was in flight
	end      func()        // closes it, once
}

// NewDrain returns a Drain that lets everything in.
func NewDrain() *Drain {
	idle := make(chan struct{})
	return &Drain{idle: idle, end: sync.OnceFunc(func() { close(idle) })}
}

// errDraining promises that nothing was started.
var errDraining = status.Error(codes.Unavailable, "the sidecar is draining; nothing was started, send the request again to another one or later")

// starting are the methods that begin something: a sidecar that drains waits for
// them, and takes no more of them. What only looks is answered until the end.
var starting = map[string]bool{
	sidecallv1.ToolService_ExecuteTool_FullMethodName:          true,
	sidecallv1.ToolService_ExecuteToolStream_FullMethodName:    true,
	sidecallv1.ToolService_ExecuteTools_FullMethodName:         true,
	sidecallv1.ToolService_RunMessage_FullMethodName:           true,
	sidecallv1.OperatorService_ListUnknown_FullMethodName:      true,
	sidecallv1.OperatorService_ResolveExecution_FullMethodName: true,
	sidecallv1.OperatorService_VerifyExecution_FullMethodName:  true,
	sidecallv1.OperatorService_ListHeld_FullMethodName:         true,
	sidecallv1.OperatorService_ApproveExecution_FullMethodName: true,
	sidecallv1.OperatorService_DenyExecution_FullMethodName:    true,
}

// intercept counts a request in while it is handled, or refuses it.
func (d *Drain) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !starting[info.FullMethod] {
		return next(ctx, req)
	}
	if !d.enter() {
		return nil, errDraining
	}
	defer d.leave()
	return next(ctx, req)
}

// enter counts one request in; false when there are to be no more.
func (d *Drain) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.draining {
		return false
	}
	d.inFlight++
	return true
}

// Hold counts in what a request has begun and that goes on after it, until
// release. It is for the request's own time: what is held then is waited for.
func (d *Drain) Hold() (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inFlight++
	return d.leave
}

func (d *Drain) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inFlight--; d.inFlight == 0 && d.draining {
		d.end()
	}
}

// Start refuses further requests and waits for those in flight, at most until ctx
// ends. It returns how many were still in flight then.
func (d *Drain) Start(ctx context.Context) int {
	d.mu.Lock()
	if d.draining = true; d.inFlight == 0 {
		d.end()
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
