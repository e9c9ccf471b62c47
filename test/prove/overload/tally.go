package overload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Answer is what came of one call: OK, or the code of its failure.
type Answer struct {
	Code     string
	Attempts int
}

// OK is the Code of a call that worked.
const OK = "OK"

// Tally is what came of a load.
type Tally struct {
	Start, End time.Time

	deadline time.Duration
	mu       sync.Mutex
	byCode   map[string]*fates
	missed   int
	attempts int
	last     time.Duration // the last start
}

// fates are the calls that ended with one code.
type fates struct {
	latencies []time.Duration
	started   []time.Duration // since Tally.Start, as ended
	ended     []time.Duration
	late      int // after their deadline
}

func newTally(deadline time.Duration) *Tally {
	return &Tally{Start: time.Now(), deadline: deadline, byCode: make(map[string]*fates)}
}

func (t *Tally) unsent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed++
}

func (t *Tally) add(a Answer, due, started, ended time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.byCode[a.Code]
	if f == nil {
		f = &fates{}
		t.byCode[a.Code] = f
	}
	took := ended.Sub(due)
	f.latencies = append(f.latencies, took)
	f.started = append(f.started, started.Sub(t.Start))
	f.ended = append(f.ended, ended.Sub(t.Start))
	t.last = max(t.last, started.Sub(t.Start))
	if took > t.deadline {
		f.late++
	}
	t.attempts += a.Attempts
}

// Count is how many calls ended with the code.
func (t *Tally) Count(code string) int {
	if f := t.byCode[code]; f != nil {
		return len(f.latencies)
	}
	return 0
}

// Total is how many calls were made.
func (t *Tally) Total() int {
	total := 0
	for code := range t.byCode {
		total += t.Count(code)
	}
	return total
}

// Offered is how many calls per second were made in the time that a load had
// for them, or until the last was, when the load generator fell behind.
func (t *Tally) Offered(window time.Duration) float64 {
	return float64(t.Total()) / max(window, t.last).Seconds()
}

// Beyond is how many calls ended with none of the codes, and which codes they
// had instead.
func (t *Tally) Beyond(codes ...string) (n int, which []string) {
	for _, code := range slices.Sorted(maps.Keys(t.byCode)) {
		if !slices.Contains(codes, code) {
			n += t.Count(code)
			which = append(which, fmt.Sprintf("%d x %s", t.Count(code), code))
		}
	}
	return n, which
}

// Unsent is how many calls of an open loop were not made, for too many were in
// flight, or the load generator came to them too late.
func (t *Tally) Unsent() int { return t.missed }

// Attempts is how many attempts the answers told of.
func (t *Tally) Attempts() int { return t.attempts }

// Goodput is how many calls per second worked within their deadline, of those
// that ended between two instants after the start.
func (t *Tally) Goodput(from, to time.Duration) float64 {
	f := t.byCode[OK]
	if f == nil || to <= from {
		return 0
	}
	good := 0
	for i, ended := range f.ended {
		if ended >= from && ended < to && f.latencies[i] <= t.deadline {
			good++
		}
	}
	return float64(good) / (to - from).Seconds()
}

// Worked is how many of the calls that were started between two instants after
// the start worked, and how many those were.
func (t *Tally) Worked(from, to time.Duration) (worked, all int) {
	for code, f := range t.byCode {
		for _, started := range f.started {
			if started < from || started >= to {
				continue
			}
			all++
			if code == OK {
				worked++
			}
		}
	}
	return worked, all
}

// FirstDue is when the first call was due that ended with the code, not before
// an instant after the start; an hour after it when none did.
func (t *Tally) FirstDue(code string, from time.Duration) time.Duration {
	first := from + time.Hour
	if f := t.byCode[code]; f != nil {
		for i, ended := range f.ended {
			if due := ended - f.latencies[i]; due >= from {
				first = min(first, due)
			}
		}
	}
	return first
}

// Quantile is the latency below which the share q of the calls with the code
// stayed; 0 when there are none.
func (t *Tally) Quantile(code string, q float64) time.Duration {
	f := t.byCode[code]
	if f == nil {
		return 0
	}
	sorted := slices.Sorted(slices.Values(f.latencies))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// String lists the codes with their counts and latencies.
func (t *Tally) String() string {
	var b strings.Builder
	for _, code := range slices.Sorted(maps.Keys(t.byCode)) {
		fmt.Fprintf(&b, "%s %d (%d late, p50 %s, p99 %s)  ", code, t.Count(code), t.byCode[code].late,
			t.Quantile(code, 0.5).Round(time.Millisecond/10), t.Quantile(code, 0.99).Round(time.Millisecond/10))
	}
	if t.missed > 0 {
		fmt.Fprintf(&b, "unsent %d", t.missed)
	}
	return strings.TrimSpace(b.String())
}
