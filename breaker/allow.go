package breaker

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrOpen is matched by every refusal.
var ErrOpen = errors.New("breaker is open")

// OpenError is a refusal: nothing was sent.
type OpenError struct {
	Name string
	// State is Open, or HalfOpen when another call is the probe.
	State State
	// RetryAfter is when to ask again; always more than 0.
	RetryAfter time.Duration
}

// Error names the breaker and the time left.
func (e *OpenError) Error() string {
	return fmt.Sprintf("breaker %q is %v: ask again after %v", e.Name, e.State, e.RetryAfter)
}

// Is makes errors.Is(err, ErrOpen) true.
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// probeWait is what a call is told that finds a probe under way. The probe may be
// done at any moment, so it is worth asking again soon.
const probeWait = time.Second

// soon is the least that a refusal tells to wait. What was in the way may be gone
// by the time that the answer is put together, but "0" would read as "no idea".
const soon = time.Millisecond

// Allow asks whether a call may be made. If so, done must be called with what
// came of it; only its first call counts, from whatever goroutine. If not, err
// is an *OpenError.
//
// A done that never comes costs no more than the outcome: the breaker gets over
// it. A done that comes when the state has changed since Allow is dropped, as it
// tells of another time.
func (b *Breaker) Allow() (done func(Outcome), err error) {
	if b == nil {
		return func(Outcome) {}, nil
	}
	if now := phase(b.phase.Load()); now.state() == Closed {
		t := &ticket{breaker: b, phase: now}
		return t.done, nil
	}
	done, err = b.allowProbe()
	b.changes.deliver()
	return done, err
}

// allowProbe is Allow for a breaker that is not closed, or was not a moment ago.
func (b *Breaker) allowProbe() (done func(Outcome), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probe.expire(time.Now())
	settle, err := b.inner.Allow()
	now := phase(b.phase.Load())
	switch {
	case now.state() == Closed:
		if err == nil {
			settle(errIgnored) // results are counted when they arrive, not here
		}
		t := &ticket{breaker: b, phase: now}
		return t.done, nil
	case err == nil && now.state() == HalfOpen:
		// Should the phase be a newer one than that of the grant, then this
		// ticket is out of date, its place in the new phase is still free,
		// and whoever takes it replaces the ticket here.
		b.probe = &ticket{breaker: b, phase: now, settle: settle, expires: time.Now().Add(b.probeTimeout)}
		return b.probe.done, nil
	case now.state() == HalfOpen:
		return nil, &OpenError{Name: b.name, State: HalfOpen, RetryAfter: max(soon, b.probe.left(time.Now()))}
	default: // a grant that has just become void is a refusal too
		return nil, &OpenError{Name: b.name, State: Open, RetryAfter: b.openLeft()}
	}
}

// ticket is a call that was let through.
type ticket struct {
	breaker *Breaker
	phase   phase
	status  atomic.Uint32

	// settle tells inner about a probe, and is harmless when the phase is
	// over. nil for other calls.
	settle  func(error)
	expires time.Time
}

// The status of a ticket.
const (
	pending uint32 = iota
	expired        // a probe that has lost its place
	settled
)

// done is what Allow gives out.
func (t *ticket) done(o Outcome) {
	before := t.status.Swap(settled)
	if before == settled {
		return
	}
	switch {
	case t.settle == nil:
		t.breaker.count(t.phase, o)
	case before == expired && o.err() == errIgnored:
		// The place was handed on already; twice would make two of it.
	default:
		// The result of an expired probe is late, but it is a result of this
		// half-open phase. Without it a backend whose calls take longer than
		// ProbeTimeout could never close its breaker.
		t.settle(o.err())
	}
	t.breaker.changes.deliver()
}

// expire takes the place of a probe back when its time is over. That is no
// failure: nothing was learnt. mu is held.
func (t *ticket) expire(now time.Time) {
	if t != nil && !now.Before(t.expires) && t.status.CompareAndSwap(pending, expired) {
		t.settle(errIgnored)
	}
}

// left returns how long to wait for the probe: until it expires, at most
// probeWait; 0 when its place is free. mu is held.
func (t *ticket) left(now time.Time) time.Duration {
	if t == nil || t.status.Load() != pending {
		return 0
	}
	return min(probeWait, max(0, t.expires.Sub(now)))
}

// count enters the outcome of a call that was let through in the closed phase
// from. It asks inner only now, for inner dates a result to its Allow.
func (b *Breaker) count(from phase, o Outcome) {
	if o.err() == errIgnored || phase(b.phase.Load()) != from {
		return
	}
	settle, err := b.inner.Allow()
	if err != nil {
		return // open since a moment
	}
	if phase(b.phase.Load()) != from {
		settle(errIgnored) // another phase, maybe the place of its probe
		return
	}
	settle(o.err())
}
