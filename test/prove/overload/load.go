package overload

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Load is calls to be made.
type Load struct {
	// Call makes the nth call, counted from 0. Its context ends at the deadline.
	Call func(ctx context.Context, n int) Answer
	// For is how long calls are started.
	For time.Duration
	// Deadline of each call, counted from the instant at which it was to start.
	Deadline time.Duration
	// Rate is how many calls are started per second, evenly spaced, in an open
	// loop.
	Rate float64
	// Callers is how many calls are in flight: always that many in a closed
	// loop, at most that many in an open one, which counts those beyond as
	// Unsent, and those that it comes to when half of their time is over.
	Callers int
}

// Open starts calls at the rate, whatever becomes of those before, and returns
// when all have ended.
func (l Load) Open(ctx context.Context) *Tally {
	tally := newTally(l.Deadline)
	var inFlight atomic.Int64
	var calls sync.WaitGroup
	total := int(l.Rate * l.For.Seconds())
	for n := range total {
		due := tally.Start.Add(time.Duration(float64(n) / l.Rate * float64(time.Second)))
		if wait := time.Until(due); wait > 0 && pause(ctx, wait) != nil {
			break
		}
		if int(inFlight.Load()) >= l.Callers {
			tally.unsent()
			continue
		}
		inFlight.Add(1)
		calls.Go(func() {
			defer inFlight.Add(-1)
			l.one(ctx, tally, n, due)
		})
	}
	calls.Wait()
	tally.End = time.Now()
	return tally
}

// Closed keeps the callers busy and returns when the last call has ended.
func (l Load) Closed(ctx context.Context) *Tally {
	tally := newTally(l.Deadline)
	var next atomic.Int64
	var callers sync.WaitGroup
	for range l.Callers {
		callers.Go(func() {
			for time.Since(tally.Start) < l.For && ctx.Err() == nil {
				l.one(ctx, tally, int(next.Add(1)-1), time.Now())
			}
		})
	}
	callers.Wait()
	tally.End = time.Now()
	return tally
}

func (l Load) one(ctx context.Context, tally *Tally, n int, due time.Time) {
	started := time.Now()
	if started.Sub(due) > l.Deadline/2 {
		tally.unsent() // that there is no answer in time would be our own fault
		return
	}
	ctx, cancel := context.WithDeadline(ctx, due.Add(l.Deadline))
	defer cancel()
	answer := l.Call(ctx, n)
	tally.add(answer, due, started, time.Now())
}

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
