package limit

import (
	"sync"
	"time"
)

// The terms of an Adaptive.
const (
	// fewest is the bound below which an Adaptive never goes, and the number of
	// calls in flight below which being late is nobody's fault but the call's.
	fewest = 4
	// windowCalls and windowTime are what a window takes at least.
	windowCalls = 10
	windowTime  = 100 * time.Millisecond
	// lateShare of the calls of a window must have come late before the bound
	// moves: some calls are always too slow for their callers.
	lateShare = 0.1
	// patient is how far the mean must be below the middle for late calls not to
	// lower the bound: they are then no matter of a queue.
	patient = 1.25
	// patientFor is how many times the time of a late call nothing may have been
	// answered before the other side may be dead. A queue that is just too long
	// answers nobody either; this leaves the bound the time to shorten it.
	patientFor = 5
	// shrink and grow bound how far the bound moves at the end of a window.
	shrink, grow = 0.25, 2
	// queued is how far the mean time of answered calls must be above the time
	// without a queue, as a share of the way to the time after which calls are
	// given up, for there to be a queue.
	queued = 0.25
)

// Adaptive bounds how many calls of one kind are in flight at a place that has a
// queue of its own. A fixed bound cannot do that alone: where more calls are let
// in than are served in the time for which their callers wait, the queue grows
// until every call is answered too late, and all that is done is done for
// nobody. Measured with calls that wait half a second, 256 places and a server
// of 8 workers: a tenth of what the server can do was left under five times the
// load.
//
// Nothing is bounded until that happens: until a tenth of the calls of a window
// are late, given up by a timeout or deadline, while others were in flight.
// From then on the bound follows the time that calls take. It is steered to the
// middle between the time they take when there is no queue and the time after
// which they are given up (so the nearer these two are to each other, the less
// of the capacity can be used), by
//
//	bound × middle ÷ mean time of a call (late ones included)
//
// once per window, which is made of calls that began under the present bound,
// and down by the share of late calls where that is more. So a queue is kept,
// which absorbs what is uneven, and nobody in it is late. That some calls are
// late without a queue does not lower the bound: those that are answered take no
// longer than ever then. Nor do callers that give up before anything can be
// answered: they are not counted, and a bound that was set on their account
// before the first answer came goes with it. A window in which few were late and
// nobody was refused doubles the bound, until there is none again.
//
// It is the gradient of Netflix's concurrency-limits and of Envoy's adaptive
// concurrency, with the deadline in place of their fixed tolerance, because what
// counts is calls answered in time; and it starts by harm, not by latency,
// because the arguments of a tool change its latency more than any queue does.
//
// A nil *Adaptive bounds nothing.
type Adaptive struct {
	mu       sync.Mutex
	inFlight int
	// bound is how many may be in flight; 0 while nothing is bounded.
	bound float64
	// highest is the bound beyond which there is none: as many as were in flight
	// when the first calls were late.
	highest float64

	base time.Duration // what a call takes without a queue
	// known says that base was seen while there was none, and is no mere guess.
	known    bool
	patience time.Duration // after what time late calls were given up
	// quickest is the least that any call was answered in; 0 before the first.
	// Whoever gives up sooner than that says nothing about a queue.
	quickest time.Duration
	answered time.Time // when the last call was answered
	// era counts the changes of the bound. A call that began in another one says
	// nothing about this one.
	era    uint64
	window window
}

// window is what has been seen for a while.
type window struct {
	began          time.Time
	answers, lates int
	answering      time.Duration // together
	lateness       time.Duration // together
	refused        int
	most           int // in flight
}

// NewAdaptive returns an Adaptive that bounds nothing yet.
func NewAdaptive() *Adaptive { return &Adaptive{} }

// Pass is the place of one call. The zero Pass is that of a nil Adaptive.
type Pass struct {
	adaptive *Adaptive
	era      uint64
	crowded  bool
}

// Enter takes a place; false when there is none.
func (a *Adaptive) Enter() (Pass, bool) {
	if a == nil {
		return Pass{}, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bound > 0 && float64(a.inFlight) >= a.bound {
		a.window.refused++
		return Pass{}, false
	}
	a.inFlight++
	a.window.most = max(a.window.most, a.inFlight)
	return Pass{adaptive: a, era: a.era, crowded: a.inFlight >= fewest}, true
}

// Leave gives the place back. It is called once.
func (p Pass) Leave() {
	if p.adaptive == nil {
		return
	}
	p.adaptive.mu.Lock()
	defer p.adaptive.mu.Unlock()
	p.adaptive.inFlight--
}

// Answered tells that something sent under this pass took so long until it was
// answered, whatever the answer.
func (p Pass) Answered(took time.Duration) {
	if p.adaptive == nil {
		return
	}
	a := p.adaptive
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.answered = now
	if a.quickest == 0 || took < a.quickest {
		a.quickest = took
	}
	if p.era == a.era {
		a.window.answers++
		a.window.answering += took
	}
	a.turn(now)
}

// Late tells that something sent under this pass was given up after so long
// without an answer. It reports whether that is likely for want of capacity:
// others were in flight, and something was answered within patientFor times as
// long. If not, the other side may be dead.
func (p Pass) Late(took time.Duration) (overload bool) {
	if p.adaptive == nil {
		return false
	}
	a := p.adaptive
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if p.era == a.era && p.crowded && took >= a.quickest && (!a.known || took >= a.base) {
		a.window.lates++
		a.window.lateness += took
	}
	a.turn(now)
	return p.crowded && a.answered.After(now.Add(-patientFor*took))
}

// Bound returns how many calls may be in flight now; 0 when nothing is bounded.
func (a *Adaptive) Bound() int {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return int(a.bound)
}

// turn ends the window if it is long enough, and begins the next.
func (a *Adaptive) turn(now time.Time) {
	w := &a.window
	if w.began.IsZero() {
		w.began = now
	}
	if w.answers+w.lates < windowCalls || now.Sub(w.began) < windowTime {
		return
	}
	before := int(a.bound)
	a.steer()
	if int(a.bound) != before {
		a.era++
	}
	a.window = window{began: now, most: a.inFlight}
}

// steer sets the bound by what the window has seen.
func (a *Adaptive) steer() {
	w := &a.window
	calls := w.answers + w.lates
	harm := w.lates > 0 && float64(w.lates) >= lateShare*float64(calls)
	if harm {
		a.patience = w.lateness / time.Duration(w.lates)
	}
	if a.patience < a.quickest {
		// They had given up before the first answer told how long one takes: what
		// was bounded for their sake was bounded for nothing.
		harm, a.bound, a.patience = false, 0, 0
	}
	if a.bound == 0 {
		if !harm {
			a.learn()
			return
		}
		a.highest = float64(max(w.most, fewest))
		a.bound = a.highest
	}
	if !harm && w.refused == 0 {
		a.relax()
		return
	}
	a.rebase()
	a.patience = max(a.patience, a.base)
	middle := (a.base + a.patience) / 2
	mean := (w.answering + w.lateness) / time.Duration(calls)
	factor := float64(middle) / float64(max(mean, 1))
	switch {
	case !a.queue():
		factor = max(factor, patient)
	case harm && factor < patient:
		factor = min(factor, 1-float64(w.lates)/float64(calls))
	}
	a.bound *= min(max(factor, shrink), grow)
	// Beyond twice what there ever was it bounds nothing.
	a.bound = max(min(a.bound, 2*max(a.highest, float64(w.most))), fewest)
}

// queue reports whether there is a queue, as far as the answered calls tell.
func (a *Adaptive) queue() bool {
	if !a.known || a.window.answers == 0 {
		return true
	}
	mean := a.window.answering / time.Duration(a.window.answers)
	return mean > a.base+time.Duration(queued*float64(a.patience-a.base))
}

// learn notes what calls take while there is no queue, or none that matters.
func (a *Adaptive) learn() {
	if a.window.answers == 0 {
		return
	}
	mean := a.window.answering / time.Duration(a.window.answers)
	if !a.known || mean < a.base {
		a.base, a.known = mean, true
		return
	}
	// Slowly, or it would take a queue that grows for the time without one.
	a.base += (mean - a.base) / 64
}

// rebase corrects what calls take without a queue: they cannot take longer than
// they just took on average, and with so few in flight there is no queue.
func (a *Adaptive) rebase() {
	if a.window.answers == 0 {
		return
	}
	mean := a.window.answering / time.Duration(a.window.answers)
	if a.base == 0 || mean < a.base || a.bound <= fewest {
		a.base = mean
	}
	a.known = a.known || a.bound <= fewest
}

// relax moves the bound out of the way.
func (a *Adaptive) relax() {
	if a.bound *= 2; a.bound >= a.highest {
		a.bound = 0
	}
}
