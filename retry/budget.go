package retry

import (
	"sync/atomic"
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

	// epochShift splits a slot: the upper half says which second it counts,
	// the lower half how much.
	epochShift = 32
	countMask  = 1<<epochShift - 1
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
// A Budget costs one atomic operation per request, takes no lock and is a few
// hundred bytes for good. A nil *Budget grants everything.
type Budget struct {
	share, floor float64

	start    time.Time
	requests ring
	retries  ring
}

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
	epoch := b.epoch(time.Now())
	return int(b.requests.sum(epoch)), int(b.retries.sum(epoch))
}

// requestAt counts one request, which is to say the first attempt of one call.
func (b *Budget) requestAt(now time.Time) {
	if b != nil {
		b.requests.add(b.epoch(now))
	}
}

// retryAt takes first and looks afterwards. Of retries that come together the
// last to be counted sees all the others, so they can never be too many between
// them; they may be one or two fewer than allowed.
func (b *Budget) retryAt(now time.Time) bool {
	if b == nil {
		return true
	}
	epoch := b.epoch(now)
	b.retries.add(epoch)
	allowed := max(b.share*float64(b.requests.sum(epoch)), b.floor*BudgetWindow.Seconds())
	if float64(b.retries.sum(epoch)) <= allowed {
		return true
	}
	b.retries.takeBack(epoch)
	return false
}

// epoch numbers the seconds of the budget's life, from 1: 0 is a slot that was
// never used. 32 bits last for 136 years.
func (b *Budget) epoch(now time.Time) uint64 {
	return uint64(max(0, now.Sub(b.start))/slotWidth) + 1
}

// ring counts per second, over the last seconds. Old counts are never cleared;
// a slot's epoch says that they are old.
type ring [slots]atomic.Uint64

// add counts one.
func (r *ring) add(epoch uint64) {
	slot := &r[epoch%slots]
	for {
		old := slot.Load()
		next := epoch<<epochShift | 1
		if old>>epochShift >= epoch {
			// The same second; or a later one, if this goroutine has slept
			// for a whole window. It then counts as late as it is.
			if old&countMask == countMask {
				return // full: four billion in one second
			}
			next = old + 1
		}
		if slot.CompareAndSwap(old, next) {
			return
		}
	}
}

// takeBack undoes one add, unless its second has left the window.
func (r *ring) takeBack(epoch uint64) {
	slot := &r[epoch%slots]
	for {
		old := slot.Load()
		if old>>epochShift != epoch || old&countMask == 0 {
			return
		}
		if slot.CompareAndSwap(old, old-1) {
			return
		}
	}
}

// sum adds up the window that ends with epoch.
func (r *ring) sum(epoch uint64) uint64 {
	var sum uint64
	for i := range r {
		slot := r[i].Load()
		if from := slot >> epochShift; from <= epoch && epoch-from < slots {
			sum += slot & countMask
		}
	}
	return sum
}
