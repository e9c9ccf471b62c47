//go:build prove

package overload

import (
	"context"
	"sync"
	"testing"
	"time"
)

// watch measures the sidecar again and again while a load runs.
type watch struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	seen   Trend
}

// watch begins to measure the sidecar at equal intervals.
func (w *world) watch(t *testing.T, every time.Duration) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	watched := &watch{cancel: cancel}
	watched.ended.Go(func() {
		for ctx.Err() == nil {
			watched.seen = append(watched.seen, w.vitals())
			_ = pause(ctx, every) // its error is that of ctx, which ends the loop
		}
	})
	return watched
}

// stop ends it.
func (w *watch) stop() Trend {
	w.cancel()
	w.ended.Wait()
	return w.seen
}

// mustBeFlat counts what grew under a load that stayed the same.
func mustBeFlat(t *testing.T, violations *int, s Trend) {
	t.Helper()
	for _, grown := range s.Grown() {
		broken(t, violations, "%s", grown)
	}
}

// mustBeBounded counts a bound that was exceeded.
func mustBeBounded(t *testing.T, violations *int, s Trend, bound Vitals) {
	t.Helper()
	if most := s.Most(); len(s) == 0 || !most.bounded(bound) {
		broken(t, violations, "at the most %s; the bound is %s", most, bound)
	}
}

// What an idle sidecar may have more of after a load than before.
const (
	idleGoroutines = 20
	idleFDs        = 12
)

// mustCalmDown waits until the sidecar is idle after a load and takes up what it did before
// it, and counts when that is not so in time. It returns what it takes up then.
func (w *world) mustCalmDown(t *testing.T, violations *int, before Vitals, within time.Duration) Vitals {
	t.Helper()
	bound := Vitals{
		Heap: 2*before.Heap + flatHeap, Goroutines: before.Goroutines + idleGoroutines, FDs: before.FDs + idleFDs,
	}
	after := w.idle(t, bound, within)
	if !after.bounded(bound) {
		broken(t, violations, "idle again it takes up more: %s, then %s", before, after)
	}
	return after
}

// idle waits until the sidecar is idle, and no more than a bound if there is one,
// and returns what it takes up then, or in the end.
func (w *world) idle(t *testing.T, bound Vitals, within time.Duration) Vitals {
	t.Helper()
	deadline := time.Now().Add(within)
	last := w.vitals()
	for still := 0; still < 3 && time.Now().Before(deadline); {
		if pause(t.Context(), 400*time.Millisecond) != nil {
			break
		}
		now := w.vitals()
		if max(now.Goroutines-last.Goroutines, last.Goroutines-now.Goroutines) < idleGoroutines/4 && now.FDs == last.FDs && now.bounded(bound) {
			still++
		} else {
			still = 0
		}
		last = now
	}
	return last
}
