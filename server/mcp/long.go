package mcp

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/identity"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// runOrHand makes a call. Of a client that takes tasks, one that has not ended after a while goes on
// without its request, which is answered with its handle.
func (f *face) runOrHand(ctx context.Context, req *sdk.CallToolRequest, of named, call *sidecallv1.ExecuteToolStreamRequest) (*sidecallv1.ExecuteToolResponse, *taskResult, error) {
	client := caller{f.options, req.Session, req.Params.GetProgressToken()}
	if !takesTasks(req.Session, req.Params.GetMeta()) {
		res, err := client.run(ctx, ctx, call)
		return res, nil, err
	}
	type end struct {
		res *sidecallv1.ExecuteToolResponse
		err error
	}
	told, stop := context.WithCancel(ctx)
	defer stop() // of a task nothing is told but by its handle
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended, forget := make(chan end, 1), f.tasks.add(&of.Call, cancel)
	f.leaving.Go(func() {
		defer forget()
		var e end
		defer func() { ended <- e }()
		defer f.options.recovered("tools/call", &e.err)
		e.res, e.err = client.run(running, told, call)
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
			known, err := of.execution(ctx, f.options.Tools)
			if err == nil && known.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED {
				return nil, handleOf(of, known).as(known), nil
			}
		}
	}
}

// tasks are the calls that may become tasks, while they run here, and what cancels each.
type tasks struct {
	mu   sync.Mutex
	long map[*identity.Call]context.CancelFunc
}

func (t *tasks) none() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.long) == 0
}

// add notes a call, until it is forgotten.
func (t *tasks) add(call *identity.Call, cancel context.CancelFunc) (forget func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.long[call] = cancel
	return func() {
		cancel()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.long, call)
	}
}

// cancel lets the callers of calls leave, which cancels what may be cancelled. What runs in
// another process goes on.
func (t *tasks) cancel(which func(identity.Call) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for call, cancel := range t.long {
		if which(*call) {
			cancel()
		}
	}
}

// longAfter is how long a call runs before it is a task.
const longAfter = 500 * time.Millisecond
