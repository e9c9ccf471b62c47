package breaker

import (
	"fmt"
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
	defer b.changes.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Closed {
		p := &pass{breaker: b, phase: b.phase}
		return p.done, nil
	}
	now := time.Now()
	state := b.look(now)
	if left := b.left(now); left > 0 {
		return nil, &OpenError{Name: b.settings.Name, State: state, RetryAfter: left}
	}
	b.probe = &pass{breaker: b, phase: b.phase, expires: now.Add(b.settings.ProbeTimeout)}
	return b.probe.done, nil
}

// done is what Allow gives out.
func (p *pass) done(o Outcome) {
	if p.settled.Swap(true) {
		return
	}
	b := p.breaker
	defer b.changes.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase == p.phase {
		b.count(p, o, time.Now())
	}
}

// count enters the outcome of a call that was let through in this phase. mu is held.
func (b *Breaker) count(p *pass, o Outcome, now time.Time) {
	if b.state == Closed {
		if b.outcomes.add(o, now); o == Failure && b.outcomes.trip(b.settings.Failures) {
			b.turn(Open, now)
		}
		return
	}
	// The result of a probe that has lost its place is late, but it is a result of this
	// half-open phase. Without it a backend whose calls take longer than ProbeTimeout
	// could never close its breaker.
	switch {
	case o == Success:
		b.turn(Closed, now)
	case o == Failure:
		b.turn(Open, now)
	case b.probe == p: // nothing was learnt: the place is the next call's
		b.probe = nil
	}
}
