package mcp

import (
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

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
	ended, forget := make(chan end, 1), f.tasks.add(of.Call, cancel)
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

// longAfter is how long a call runs before it is a task.
const longAfter = 500 * time.Millisecond
