package server

import (
	"context"
	"sync"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// ExecuteBatch runs the calls of one assistant turn: in parallel, bounded, but
// calls of sequential tools one after the other in request order. The results
// stand in request order, one per call, whatever any one of them does.
func (e *Executor) ExecuteBatch(ctx context.Context, tenant string, calls []*sidecallv1.ExecuteToolRequest) []*sidecallv1.ExecuteToolResponse {
	results := make([]*sidecallv1.ExecuteToolResponse, len(calls))
	var sequential []int
	var parallel []int
	for i, req := range calls {
		if route, ok := e.Registry.Lookup(req.GetToolName()); ok && route.Tool.Policy.Sequential {
			sequential = append(sequential, i)
		} else {
			parallel = append(parallel, i)
		}
	}
	// Each lane is a list of calls that one goroutine runs in order.
	lanes := make(chan []int, len(parallel)+1)
	if len(sequential) > 0 {
		lanes <- sequential
	}
	for _, i := range parallel {
		lanes <- []int{i}
	}
	close(lanes)

	var wg sync.WaitGroup
	for range min(max(e.Options.BatchParallel, 1), len(lanes)) {
		wg.Go(func() {
			for lane := range lanes {
				for _, i := range lane {
					results[i] = e.Execute(ctx, tenant, calls[i])
				}
			}
		})
	}
	wg.Wait()
	return results
}
