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
