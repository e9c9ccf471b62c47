package mcp

import (
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/identity"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// runOrHand makes a call of a client that takes tasks. One that has not ended after a while goes on
// without its request, which is answered with its handle.
func (f *face) runOrHand(ctx context.Context, req *sdk.CallToolRequest, of named, call *sidecallv1.ExecuteToolStreamRequest) (*sidecallv1.ExecuteToolResponse, *taskResult, error) {
	type end struct {
		res *sidecallv1.ExecuteToolResponse
		err error
	}
	told, stop := context.WithCancel(ctx)
	defer stop() // of a task nothing is told but by its handle
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended, forget := make(chan end, 1), f.longer(&long{of.Call, cancel})
	f.leaving.Go(func() {
		defer forget()
		var e end
		defer func() { ended <- e }()
		defer f.recovered("tools/call", &e.err)
		e.res, e.err = f.run(running, told, req, call)
	})
	ticker := time.NewTicker(longAfter)
	defer ticker.Stop()
	for {
		select {
		case e := <-ended:
			return e.res, nil, e.err
		case <-ctx.Done():
			cancel()
			e := <-ended
			return e.res, nil, e.err
		case <-ticker.C:
			// Only what has a record can be asked for.
			known, err := f.execution(ctx, of)
			if err == nil && known.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED {
				return nil, handleOf(of, known).as(known), nil
			}
		}
	}
}

// longer notes a call, until it is forgotten.
func (f *face) longer(l *long) (forget func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.long[l] = true
	return func() {
		l.cancel()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.long, l)
	}
}

// cancelTasks lets the callers of calls leave, which cancels what may be cancelled. What runs in
// another process goes on.
func (f *face) cancelTasks(which func(identity.Call) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.long {
		if which(l.of) {
			l.cancel()
		}
	}
}

// longAfter is how long a call runs before it is a task.
const longAfter = 500 * time.Millisecond
