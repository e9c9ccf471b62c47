package call

import (
	"context"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
)

// ExecuteBatch runs the calls of one assistant turn, on one lease as Execute does: in
// parallel, bounded, but calls of sequential tools, and those with one id, one after
// the other in request order. The results stand in request order, one per call, whatever any one of them does.
func (e *Executor) ExecuteBatch(ctx context.Context, lease catalog.Lease, requests []Request, most int) []*response {
	results := make([]*response, len(requests))
	calls := make([]*call, len(requests))
	for i, req := range requests {
		calls[i] = newCall(lease.Snapshot, req)
	}
	together(calls)
	sorted := lanesOf(calls)
	lanes := make(chan []int, len(sorted))
	for _, lane := range sorted {
		lanes <- lane
	}
	close(lanes)

	over, cancel := context.WithDeadlineCause(ctx, time.Now(), errCallDeadline)
	defer cancel()
	fitting := result.Fitting{Most: most}
	var mu sync.Mutex // guards fitting, and the results that it has
	var wg sync.WaitGroup
	for range min(max(lease.Limits.BatchParallel, 1), len(sorted)) {
		wg.Go(func() {
			for lane := range lanes {
				goesOn := false
				for _, i := range lane {
					ctx := ctx
					if goesOn {
						ctx = over // nothing begins beside the one before it
					}
					calls[i].start = time.Now() // its deadline begins when its turn comes
					c := calls[i]
					if caller := c.hurry(ctx, lease); caller != nil {
						go func() { caller.answer(e.execute(ctx, c)) }() // ends with the call
						var left bool
						results[i], left = caller.wait(ctx, e.Hold)
						goesOn = goesOn || left
					} else {
						results[i] = e.execute(ctx, c)
					}
					calls[i] = nil // it holds the reply of its backend
					mu.Lock()
					fitting.Add(i, requests[i].Key, results[i])
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return results
}

// lanesOf sorts calls, by their place, into lists that are run in order: one of
// the calls of sequential tools, and one for each id. So of two calls with one id
// it is always the first in request order that is made, and the other one that is
// a duplicate, or that has reused the id.
func lanesOf(calls []*call) [][]int {
	sequential := make(map[tool.CallID]bool)
	for _, c := range calls {
		if route := c.of.Route; route != nil && route.Tool.Policy.Sequential {
			sequential[c.Key] = true
		}
	}
	var lanes [][]int
	laneOf := make(map[tool.CallID]int, len(calls))
	for i, c := range calls {
		key := c.Key
		if sequential[key] {
			key = tool.CallID{} // no call that is made has this one
		}
		lane, known := laneOf[key]
		if !known {
			lane = len(lanes)
			lanes = append(lanes, nil)
			laneOf[key] = lane
		}
		lanes[lane] = append(lanes[lane], i)
	}
	return lanes
}
