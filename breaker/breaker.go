package breaker

import (
	"sync"
	"sync/atomic"
	"time"
)

// The defaults of Settings.
const (
	DefaultFailures = 5
	DefaultWindow   = 30 * time.Second
	DefaultOpenFor  = 10 * time.Second
)

// Settings of a Breaker. Zero values mean the defaults.
type Settings struct {
	// Name is passed to OnChange and shown in errors.
	Name string
	// Failures that there must be in the window before the breaker trips. The
	// package comment has the whole rule.
	Failures uint32
	// Window is how long an outcome counts while the breaker is closed.
	Window time.Duration
	// OpenFor is how long the breaker refuses before it lets a probe through.
	OpenFor time.Duration
	// ProbeTimeout is how long a probe keeps its place without a result. It is
	// no timeout of the call: a probe that takes longer goes on, its result
	// still counts if half-open lasts until then, and meanwhile one more probe
	// may run beside it. 0 means OpenFor, so that after a lost probe the
	// next one comes no later than twice OpenFor after the breaker tripped.
	ProbeTimeout time.Duration
	// OnChange is told of each change of state, in order and never
	// concurrently, by the goroutine of whichever call came upon it: it should
	// be quick. It may use the breaker. nil is allowed.
	OnChange func(name string, from, to State)
}

// Breaker is safe for concurrent use. It owns no goroutine and no timer. A nil
// *Breaker is always closed.
type Breaker struct {
	settings Settings
	changes  changes

	// mu guards all below.
	mu    sync.Mutex
	state State
	// phase counts the states that there have been: a result counts in the one in which its
	// call was let through.
	phase     uint64
	outcomes  outcomes // of the closed state
	openUntil time.Time
	probe     *pass // who has the place of the probe; nil for nobody
}

// pass is the right to make one call.
type pass struct {
	breaker *Breaker
	phase   uint64
	expires time.Time // of a probe, when it loses its place
	settled atomic.Bool
}

// New returns a closed breaker.
func New(s Settings) *Breaker {
	if s.Failures == 0 {
		s.Failures = DefaultFailures
	}
	if s.Window <= 0 {
		s.Window = DefaultWindow
	}
	if s.OpenFor <= 0 {
		s.OpenFor = DefaultOpenFor
	}
	if s.ProbeTimeout <= 0 {
		s.ProbeTimeout = s.OpenFor
	}
	return &Breaker{settings: s, changes: changes{name: s.Name, listener: s.OnChange}, outcomes: newOutcomes(s.Window)}
}

// turn begins a phase, which knows nothing of the one before. mu is held.
func (b *Breaker) turn(to State, now time.Time) {
	if b.state != to {
		b.changes.add(b.state, to)
	}
	b.state, b.probe = to, nil
	b.phase++
	b.outcomes.clear()
	if to == Open {
		b.openUntil = now.Add(b.settings.OpenFor)
	}
}

// look turns open into half-open when it is time, and returns the state. mu is held.
func (b *Breaker) look(now time.Time) State {
	if b.state == Open && !now.Before(b.openUntil) {
		b.turn(HalfOpen, now)
	}
	return b.state
}

// Reset closes the breaker and forgets what it has counted: for whoever knows that
// what failed is there no more, as a connection that was lost and made anew. Calls
// that were let through before count for nothing.
func (b *Breaker) Reset() {
	if b == nil {
		return
	}
	defer b.changes.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(Closed, time.Now())
}

// State returns the present state.
func (b *Breaker) State() State {
	if b == nil {
		return Closed
	}
	defer b.changes.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.look(time.Now())
}

// RetryAfter returns how long a call that would be refused now should wait: the
// rest of OpenFor, or a short while when a probe is under way. 0 when a call
// would be let through.
func (b *Breaker) RetryAfter() time.Duration {
	if b == nil {
		return 0
	}
	defer b.changes.deliver()
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.look(now)
	return b.left(now)
}

const (
	// probeWait is what a call is told that finds a probe under way. The probe may be
	// done at any moment, so it is worth asking again soon.
	probeWait = time.Second
	// soon is the least that a refusal tells to wait. What was in the way may be gone
	// by the time that the answer is put together, but "0" would read as "no idea".
	soon = time.Millisecond
)

// left is how long nothing is let through: until the breaker has been open for its time, or
// the probe expires, of which at most probeWait is told; 0 when a call is let through. mu is held.
func (b *Breaker) left(now time.Time) time.Duration {
	switch {
	case b.state == Open:
		return max(soon, b.openUntil.Sub(now))
	case b.state == HalfOpen && b.probe != nil && now.Before(b.probe.expires):
		return max(soon, min(probeWait, b.probe.expires.Sub(now)))
	}
	return 0
}
