//go:build prove

package overload

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// watch measures the sidecar again and again while a load runs.
type watch struct {
	world  *world
	cancel context.CancelFunc
	ended  sync.WaitGroup
	seen   []vitals
}

// looks is how often a load is looked at, from its start to its end.
const looks = 12

// watch begins to look at the sidecar under a load that takes about so long.
func (w *world) watch(t *testing.T, load time.Duration) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	watched := &watch{world: w, cancel: cancel}
	watched.ended.Go(func() {
		for ctx.Err() == nil {
			watched.seen = append(watched.seen, w.vitals())
			_ = pause(ctx, load/looks) // its error is that of ctx, which ends the loop
		}
	})
	return watched
}

// stop ends it.
func (w *watch) stop() trend {
	w.cancel()
	w.ended.Wait()
	return trend(w.seen)
}

// trend is how vitals went over time.
type trend []vitals

// Under a load that stays the same, memory is flat when the most that was taken
// up in the last third of the time exceeds the most of the middle third by no
// more than a tenth and a constant, in which a collector's cycles and a few
// grown buffers disappear. A leak of 1 KiB per call at 1,000 calls/s exceeds it
// in half a minute.
const (
	flatShare      = 0.10
	flatHeap       = 8 * mib
	flatRSS        = 24 * mib
	flatGoroutines = 200
	flatFDs        = 50
)

// violations reports what is not flat.
func (s trend) violations(t *testing.T) int {
	t.Helper()
	if len(s) < 6 {
		t.Errorf("only %d looks at the memory", len(s))
		return 1
	}
	third := len(s) / 3
	middle, last := s[third:2*third].most(), s[2*third:].most()
	violations := 0
	for _, grown := range []struct {
		what               string
		from, to, constant int64
	}{
		{"the heap", middle.heap, last.heap, flatHeap},
		{"RSS", middle.rss, last.rss, flatRSS},
		{"goroutines", int64(middle.goroutines), int64(last.goroutines), flatGoroutines},
		{"descriptors", int64(middle.fds), int64(last.fds), flatFDs},
	} {
		if limit := grown.from + int64(flatShare*float64(grown.from)) + grown.constant; grown.to > limit {
			broken(t, &violations, "%s grew from %d to %d under the same load", grown.what, grown.from, grown.to)
		}
	}
	return violations
}

// exceeds reports what exceeded a bound at any time.
func (s trend) exceeds(t *testing.T, bound vitals) int {
	t.Helper()
	violations, most := 0, s.most()
	if len(s) == 0 || most.rss > bound.rss || most.heap > bound.heap || most.goroutines > bound.goroutines || most.fds > bound.fds {
		broken(t, &violations, "%s at the most, want at most %s", most, bound)
	}
	return violations
}

// most is the most of each.
func (s trend) most() vitals {
	var m vitals
	for _, v := range s {
		m.rss, m.heap = max(m.rss, v.rss), max(m.heap, v.heap)
		m.goroutines, m.fds = max(m.goroutines, v.goroutines), max(m.fds, v.fds)
	}
	return m
}

// String tells start, middle and end.
func (s trend) String() string {
	if len(s) == 0 {
		return "not looked at"
	}
	start, mid, end := s[0], s[len(s)/2], s[len(s)-1]
	return fmt.Sprintf("RSS %d/%d/%d MiB, heap %.1f/%.1f/%.1f MiB, at most %d goroutines", start.rss/mib, mid.rss/mib, end.rss/mib,
		float64(start.heap)/mib, float64(mid.heap)/mib, float64(end.heap)/mib, s.most().goroutines)
}
