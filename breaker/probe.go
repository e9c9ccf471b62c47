package breaker

import (
	"sync/atomic"
	"time"
)

// probeWait is what a call is told that finds a probe under way. The probe may be
// done at any moment, so it is worth asking again soon.
const probeWait = time.Second

// probe is a call that was let through while the breaker was half-open.
type probe struct {
	changes *changes // those of its breaker
	// settle tells inner, and is harmless when the phase is over.
	settle  func(error)
	expires time.Time
	status  atomic.Uint32
}

// The status of a probe.
const (
	pending uint32 = iota
	expired        // it has lost its place
	settled
)

// done is what Allow gives out for a probe.
func (p *probe) done(o Outcome) {
	before := p.status.Swap(settled)
	if before == settled {
		return
	}
	if before == expired && !o.counts() {
		return // the place was handed on already; twice would make two of it
	}
	// The result of an expired probe is late, but it is a result of this
	// half-open phase. Without it a backend whose calls take longer than
	// ProbeTimeout could never close its breaker.
	p.settle(o.err())
	p.changes.deliver()
}

// expire takes the place back when the probe's time is over. That is no failure:
// nothing was learnt. The breaker's mu is held.
func (p *probe) expire(now time.Time) {
	if p != nil && !now.Before(p.expires) && p.status.CompareAndSwap(pending, expired) {
		p.settle(errIgnored)
	}
}

// left returns how long to wait for the probe: until it expires, at most
// probeWait; 0 when its place is free. The breaker's mu is held.
func (p *probe) left(now time.Time) time.Duration {
	if p == nil || p.status.Load() != pending {
		return 0
	}
	return min(probeWait, max(0, p.expires.Sub(now)))
}

// soon is the least that a refusal tells to wait. What was in the way may be gone
// by the time that the answer is put together, but "0" would read as "no idea".
const soon = time.Millisecond
