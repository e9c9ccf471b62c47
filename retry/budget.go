package retry

import (
	"sync"
	"time"
)

// The usual terms of a Budget.
const (
	// BudgetShare is how many retries there may be per recent request.
	BudgetShare = 0.2
	// BudgetFloor is how many retries per second there may be however few the
	// requests are: at low traffic a share of nothing would forbid all.
	BudgetFloor = 3.0
	// BudgetWindow is how long a request counts as recent.
	BudgetWindow = slots * slotWidth
)

const (
	slots     = 10
	slotWidth = time.Second
)

// Budget is the retry budget of one backend: it caps how much load retries may
// add when the backend is down. A policy cannot do that. Three attempts are
// little for one call, but they are three times the load for a backend that is
// failing under too much of it.
//
// Within any BudgetWindow there are at most as many retries as the larger of
// its share of the requests and its floor per second. So by the usual terms a dead
// backend gets at most 1.2 times its usual requests, or 30 retries in ten seconds,
// whichever is more.
//
// The rule is Finagle's RetryBudget (20 % of the requests of the last ten
// seconds and some per second) with the figures of Envoy's retry_budget
// (budget_percent 20, min_retry_concurrency 3). It differs in two points.
// Finagle adds its minimum to the share, which would break the promise of 1.2;
// here it is a floor under it. Envoy compares retries in flight with requests in
// flight; retries that wait for their turn, as they do here, are in no flight.
// gRPC proposal A6 has a token bucket without time: it recovers by successes
// alone, which a backend with little traffic is slow to produce.
//
// A Budget is a few hundred bytes for good. A nil *Budget grants everything.
type Budget struct {
	share, floor float64

	start time.Time

	mu sync.Mutex
	// last is the second that was counted in last, from the start.
	last   int64
	recent [slots]counts
}

// counts are those of a slot.
type counts struct{ requests, retries uint64 }

// NewBudget returns a budget with nothing spent: share is how many retries there may be
// per recent request, floor how many per second in any case.
func NewBudget(share, floor float64) *Budget {
	return &Budget{share: share, floor: floor, start: time.Now()}
}

// Retry takes one retry from the budget, or reports that there is none left.
// Do does that by itself.
func (b *Budget) Retry() bool { return b.retryAt(time.Now()) }

// Recent returns the requests and the retries of the last BudgetWindow.
func (b *Budget) Recent() (requests, retries int) {
	if b == nil {
		return 0, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slot(time.Now())
	all := b.sum()
	return int(all.requests), int(all.retries)
}

// requestAt counts one request, which is to say the first attempt of one call.
func (b *Budget) requestAt(now time.Time) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slot(now).requests++
}

func (b *Budget) retryAt(now time.Time) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	slot, all := b.slot(now), b.sum()
	allowed := max(b.share*float64(all.requests), b.floor*BudgetWindow.Seconds())
	if float64(all.retries+1) > allowed {
		return false
	}
	slot.retries++
	return true
}

// slot returns the counts of an instant's second, after it has emptied those that have left the window.
// An instant that comes late counts as the last one does. mu is held.
func (b *Budget) slot(now time.Time) *counts {
	for present := int64(now.Sub(b.start) / slotWidth); b.last < present; {
		b.last = max(b.last+1, present-slots+1)
		b.recent[b.last%slots] = counts{}
	}
	return &b.recent[b.last%slots]
}

// sum adds up the window. mu is held.
func (b *Budget) sum() (all counts) {
	for _, slot := range b.recent {
		all.requests += slot.requests
		all.retries += slot.retries
	}
	return all
}
