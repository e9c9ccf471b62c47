package breaker

import (
	"fmt"
	"sync/atomic"
	"time"
)

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
		c := &call{breaker: b, phase: now}
		return c.done, nil
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
	settle, err := b.inner.Load().Allow()
	now := phase(b.phase.Load())
	switch {
	case now.state() == Closed:
		if err == nil {
			settle(errIgnored) // results are counted when they arrive, not here
		}
		c := &call{breaker: b, phase: now}
		return c.done, nil
	case err == nil && now.state() == HalfOpen:
		// Should the phase be a newer one than that of the grant, then this
		// probe is out of date, its place in the new phase is still free, and
		// whoever takes it replaces the probe here.
		b.probe = &probe{changes: &b.changes, settle: settle, expires: time.Now().Add(b.probeTimeout)}
		return b.probe.done, nil
	case now.state() == HalfOpen:
		return nil, &OpenError{Name: b.name, State: HalfOpen, RetryAfter: max(soon, b.probe.left(time.Now()))}
	default: // a grant that has just become void is a refusal too
		return nil, &OpenError{Name: b.name, State: Open, RetryAfter: b.openLeft()}
	}
}

// call is a call that was let through while the breaker was closed.
type call struct {
	breaker *Breaker
	phase   phase
	settled atomic.Bool
}

// done is what Allow gives out for a call.
func (c *call) done(o Outcome) {
	if c.settled.Swap(true) {
		return
	}
	c.breaker.count(c.phase, o)
	c.breaker.changes.deliver()
}

// count enters the outcome of a call that was let through in the closed phase
// from. It asks inner only now, for inner dates a result to its Allow.
func (b *Breaker) count(from phase, o Outcome) {
	if !o.counts() || phase(b.phase.Load()) != from {
		return
	}
	settle, err := b.inner.Load().Allow()
	if err != nil {
		return // open since a moment
	}
	if phase(b.phase.Load()) != from {
		settle(errIgnored) // another phase, maybe the place of its probe
		return
	}
	settle(o.err())
}
