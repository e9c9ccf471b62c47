package breaker

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// The defaults of Settings.
const (
	DefaultFailures = 5
	DefaultWindow   = 30 * time.Second
	DefaultOpenFor  = 10 * time.Second
)

// buckets is into how many parts the window is divided. A failure counts for
// nine to ten tenths of the window.
const buckets = 10

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
	name         string
	openFor      time.Duration
	probeTimeout time.Duration
	start        time.Time // what openUntil counts from
	settings     Settings
	changes      changes

	// inner decides. Reset puts another one in its place; turning keeps apart what
	// the old one still decides and that.
	inner   atomic.Pointer[inner]
	turning sync.Mutex

	// phase and openUntil are written with turning held, by the inner of now in its
	// OnStateChange, under its mutex, and by Reset. So they are never behind what
	// has been decided.
	phase     atomic.Uint64
	openUntil atomic.Int64 // nanoseconds since start

	// mu serializes the calls that come while the breaker is not closed, so
	// that who gets the probe's place and who is noted as holding it are one.
	mu    sync.Mutex
	probe *probe // the last probe; nil before the first
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
	b := &Breaker{
		name:         s.Name,
		openFor:      s.OpenFor,
		probeTimeout: s.ProbeTimeout,
		start:        time.Now(),
		settings:     s,
		changes:      changes{name: s.Name, listener: s.OnChange},
	}
	b.inner.Store(b.newInner())
	return b
}

// inner is gobreaker's state machine. It cannot be told to close.
type inner struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
}

// newInner returns a closed one, which tells b what it decides for as long as it is
// the one of b.
func (b *Breaker) newInner() *inner {
	s, made := b.settings, &inner{}
	made.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         s.Name,
		MaxRequests:  1, // one probe, and one success closes
		Interval:     s.Window,
		BucketPeriod: max(s.Window/buckets, 1),
		// inner is open until its timeout has been exceeded, and 0 is a
		// default of its own. One nanosecond less, and a call that waited as
		// long as it was told gets through.
		Timeout:       max(s.OpenFor-1, 1),
		ReadyToTrip:   func(c gobreaker.Counts) bool { return trips(c, s.Failures) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errIgnored) },
		OnStateChange: func(_ string, from, to gobreaker.State) { b.changed(made, State(from), State(to)) },
	})
	return made
}

// trips is the rule of the package comment.
func trips(c gobreaker.Counts, failures uint32) bool {
	if c.TotalFailures < failures {
		return false
	}
	outcomes := uint64(c.TotalFailures) + uint64(c.TotalSuccesses)
	run := uint64(c.ConsecutiveFailures)
	return 2*uint64(c.TotalFailures) >= outcomes ||
		run >= uint64(failures) && 100*run >= outcomes
}

// changed runs under the mutex of the inner that tells of the change.
func (b *Breaker) changed(by *inner, from, to State) {
	b.turning.Lock()
	defer b.turning.Unlock()
	if b.inner.Load() != by {
		return // it has been replaced: it speaks of another time
	}
	if to == Open {
		b.openUntil.Store(int64(time.Since(b.start) + b.openFor))
	}
	b.phase.Store(uint64(phase(b.phase.Load()).next(to)))
	b.changes.add(from, to)
}

// Reset closes the breaker and forgets what it has counted: for whoever knows that
// what failed is there no more, as a connection that was lost and made anew. Calls
// that were let through before count for nothing.
func (b *Breaker) Reset() {
	if b == nil {
		return
	}
	b.renew()
	b.changes.deliver()
}

func (b *Breaker) renew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turning.Lock()
	defer b.turning.Unlock()
	now := phase(b.phase.Load())
	// The phase first: what was let through in the one before must find that it is
	// over before it finds an inner that would count it.
	b.phase.Store(uint64(now.next(Closed)))
	b.inner.Store(b.newInner())
	b.probe = nil
	if now.state() != Closed {
		b.changes.add(now.state(), Closed)
	}
}

// State returns the present state.
func (b *Breaker) State() State {
	if b == nil {
		return Closed
	}
	state := State(b.inner.Load().State()) // turns open into half-open when it is time
	b.changes.deliver()
	return state
}

// RetryAfter returns how long a call that would be refused now should wait: the
// rest of OpenFor, or a short while when a probe is under way. 0 when a call
// would be let through.
func (b *Breaker) RetryAfter() time.Duration {
	switch state := b.State(); state {
	case Open:
		return b.openLeft()
	case HalfOpen:
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.probe.left(time.Now())
	case Closed:
		return 0
	default:
		panic("breaker: no such state: " + state.String())
	}
}

// openLeft returns the rest of OpenFor, at least soon.
func (b *Breaker) openLeft() time.Duration {
	return max(soon, time.Duration(b.openUntil.Load())-time.Since(b.start))
}
