package call

import (
	"context"
	"sync"
	"time"
)

// ExecuteBatch runs the calls of one assistant turn: in parallel, bounded, but
// calls of sequential tools one after the other in request order. The results
// stand in request order, one per call, whatever any one of them does.
func (e *Executor) ExecuteBatch(ctx context.Context, requests []Request) []*response {
	lease := e.Catalog.Lease()
	defer lease.Release()
	results := make([]*response, len(requests))
	calls := make([]*call, len(requests))
	var sequential, parallel []int
	for i, req := range requests {
		calls[i] = newCall(lease.Snapshot, req)
		if route := calls[i].route; route != nil && route.Tool.Policy.Sequential {
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

	over, cancel := context.WithDeadlineCause(ctx, time.Now(), errCallDeadline)
	defer cancel()
	var wg sync.WaitGroup
	for range min(max(lease.Limits.BatchParallel, 1), len(lanes)) {
		wg.Go(func() {
			for lane := range lanes {
				ctx := ctx
				for _, i := range lane {
					calls[i].start = time.Now() // its deadline begins when its turn comes
					if !calls[i].mayOutlast(ctx) {
						results[i] = e.execute(ctx, calls[i])
						continue
					}
					var goesOn bool
					if results[i], goesOn = e.inTime(ctx, lease, calls[i]); goesOn {
						ctx = over // the next one must not begin beside it
					}
				}
			}
		})
	}
	wg.Wait()
	return results
}
