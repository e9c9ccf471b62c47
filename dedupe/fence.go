package dedupe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// defaultTenure is how long a tenure lasts without a renewal. It is how long a
// start waits of which nobody can say whether its predecessor is gone, and how
// long a process does without its store before it claims and sends nothing more.
const defaultTenure = 5 * time.Second

const (
	// renewalsPerTenure and looksPerTenure are how often a tenure is renewed, and
	// looked at by who waits for its end, while it lasts.
	renewalsPerTenure, looksPerTenure = 5, 20
	// alive is how many renewals show that a tenure's holder lives. One may have
	// been under way when it died.
	alive = 2
)

// ErrUnconfirmed is why nothing is claimed, renewed, settled or sent by a process
// that cannot be sure to be the only one of its instance: it has not taken over
// yet, its store does not confirm it, or another process has succeeded it.
var ErrUnconfirmed = errors.New("the store has not confirmed that this process is the only one of its instance")

// fence keeps a process that may have a successor from doing anything. It renews
// the tenure of the process, and says for how long that surely lasts, by clocks
// of its own: counted from before the renewal was sent, so that it ends here
// before the store lets anybody else have it.
//
// The monotonic clock does not count the time that a machine sleeps, the wall clock
// may be set: what holds has to hold by both.
type fence struct {
	tenures Tenures
	options Options
	life    *life
	heard   func(error) // told of each answer of the store
	// until is the end of the tenure by the monotonic clock, as time since the
	// start; wall by the wall clock, in nanoseconds since 1970.
	until, wall atomic.Int64
	// since is when the store lost what it knew of the tenure: until it was written
	// again somebody else may have had it, and have decided what was claimed before.
	since atomic.Int64
	// head is how the owners of this incarnation begin; nil until it has a number.
	head atomic.Pointer[string]

	mu    sync.Mutex
	asked chan struct{} // closed when the store has been asked once more, or did not answer

	decided chan struct{} // closed when the start need not wait any more
	ousted  chan error    // gets a RivalError
	rival   atomic.Pointer[RivalError]
	cause   atomic.Pointer[string] // why the store did not confirm it when it was last asked

	// The rest is the goroutine's own.
	bid Bid
	// first and last are another's tenure as it was first and last seen to change,
	// the latter at an instant.
	first, last Tenure
	lastAt      time.Time
	looks       int // since then
	lapsed      bool
}

// newFence returns the fence of a process that is named an instance, at work
// until the life ends; nil when it is not, or when its store keeps no tenures.
func newFence(store Store, o Options, l *life) *fence {
	tenures, ok := store.(Tenures)
	if !ok || o.Instance == "" {
		return nil
	}
	return &fence{
		tenures: tenures, options: o, life: l, asked: make(chan struct{}), decided: make(chan struct{}), ousted: make(chan error, 1),
		bid: Bid{Instance: o.Instance, Token: rand.Text(), Who: o.Who.encode(), TTL: o.Tenure, Keep: max(o.Retention, o.Tenure)},
	}
}

// confirmed reports that nobody else can be this instance now.
func (f *fence) confirmed(now time.Time) bool {
	return int64(f.life.elapsed(now)) < f.until.Load() && now.UnixNano() < f.wall.Load()
}

// covers reports that, besides, nobody else was since a claim was last confirmed,
// as time since the start.
func (f *fence) covers(now time.Time, claimed time.Duration) bool {
	return f.confirmed(now) && int64(claimed) >= f.since.Load()
}

// check says why nothing may be done; nil while the tenure holds.
func (f *fence) check() error {
	if f.confirmed(time.Now()) {
		return nil
	}
	if rival := f.rival.Load(); rival != nil {
		return fmt.Errorf("%w: %w", ErrUnconfirmed, rival)
	}
	if cause := f.cause.Load(); cause != nil {
		return fmt.Errorf("%w: %s", ErrUnconfirmed, *cause)
	}
	return ErrUnconfirmed
}

// await is check for who is about to begin something, and would be refused only
// because this process stood still for a while: it is soon known whether another
// has succeeded it. A store that was asked and did not confirm it is not waited for.
func (f *fence) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.options.Tenure)
	defer cancel()
	for {
		f.mu.Lock()
		asked := f.asked
		f.mu.Unlock()
		err := f.check()
		if err == nil || f.rival.Load() != nil || f.cause.Load() != nil {
			return err
		}
		select {
		case <-asked:
		case <-ctx.Done():
			return err
		case <-f.life.closing:
			return ErrClosed
		}
	}
}

// owner is how the owners of this incarnation begin; empty while it has none.
func (f *fence) owner() string {
	if f != nil {
		if head := f.head.Load(); head != nil {
			return *head
		}
	}
	return ""
}

// round renews the tenure, or tries to get it.
func (f *fence) round() (rest time.Duration, wake <-chan struct{}) {
	ctx, cancel := context.WithTimeout(f.life.background, f.options.Tenure/2)
	defer cancel()
	sent := time.Now()
	var before, after Tenure
	var standing Standing
	err := survive(func() (err error) {
		before, after, standing, err = f.tenures.Bid(ctx, f.bid)
		return err
	})
	defer f.tell()
	switch {
	case err != nil:
		f.unanswered(err)
		return f.options.Tenure / looksPerTenure, nil
	case standing == Occupied:
		return f.occupied(after), nil
	}
	f.confirm(sent, before, after, standing)
	return max(f.options.Tenure/renewalsPerTenure-time.Since(sent), 0), nil
}

// tell wakes who waits for what the store says.
func (f *fence) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.asked)
	f.asked = make(chan struct{})
}

// unanswered: the start does not wait for a store that is away.
func (f *fence) unanswered(err error) {
	cause := err.Error() // its text alone: it is not about the call that is told
	f.cause.Store(&cause)
	if f.bid.Number != 0 && !f.lapsed && !f.confirmed(time.Now()) {
		f.lapsed = true
		f.options.Log.Warn("the store does not confirm this instance: nothing is claimed, sent or settled until it does", "instance", f.options.Instance, "error", err)
	}
	f.decide()
}

// confirm notes that the tenure is this process's, from before it was asked for.
func (f *fence) confirm(sent time.Time, before, after Tenure, standing Standing) {
	log := f.options.Log.With("instance", f.options.Instance, "incarnation", after.Number)
	switch {
	case f.bid.Number == 0:
		head := ownerOf(f.options.Instance, after.Number)
		f.head.Store(&head)
		if before.Token != "" && before.Token != f.bid.Token {
			log = log.With("over_from", decodeWho(before.Who).String(), "had_ended_well", before.Until.IsZero())
		}
		log.Info("instance taken")
	case standing == Founded:
		f.since.Store(int64(f.life.elapsed(sent)))
		log.Warn("the store had forgotten this instance: what was claimed before is sent only once the store has confirmed it")
	case f.lapsed:
		log.Info("the store confirms this instance again")
	}
	f.bid.Number, f.bid.Gone, f.bid.Looks, f.lapsed = after.Number, Tenure{}, false, false
	surely := surely(f.options.Tenure)
	f.wall.Store(sent.Add(surely).UnixNano())
	f.until.Store(int64(f.life.elapsed(sent.Add(surely))))
	f.cause.Store(nil)
	f.heard(nil)
	f.decide()
}

// occupied deals with another's tenure: after one's own it is the end. Before, it
// is watched until its holder is known to be gone, or alive.
func (f *fence) occupied(other Tenure) (rest time.Duration) {
	now, who := time.Now(), decodeWho(other.Who)
	if f.bid.Number != 0 {
		return f.end(who)
	}
	if other.Token != f.first.Token {
		f.first, f.last, f.lastAt, f.looks = other, other, now, 0
		cause := "it waits for the end of another process of this instance, or a sign that it lives: " + who.String()
		f.cause.Store(&cause)
		f.options.Log.Info(cause, "instance", f.options.Instance)
	}
	if other.Renewals != f.last.Renewals {
		f.last, f.lastAt, f.looks = other, now, 0
	}
	f.looks++
	f.bid.Looks = true // it has been seen: from now on it has to be seen not to be renewed
	gone := f.options.Gone != nil && f.options.Gone(who)
	switch left := f.options.Tenure - now.Sub(f.lastAt); {
	case gone || left <= 0 && f.looks > looksPerTenure:
		// By as many looks as by time: a process that stood still has seen nothing.
		// A renewal that was under way may still come before the bid that says so.
		f.bid.Gone = other
		return 0
	case other.Renewals-f.first.Renewals >= alive:
		return f.end(who)
	default:
		return f.options.Tenure / looksPerTenure
	}
}

// end: another process is this instance.
func (f *fence) end(other Who) (rest time.Duration) {
	f.until.Store(0)
	err := &RivalError{Instance: f.options.Instance, Other: other}
	f.rival.Store(err)
	f.ousted <- err
	f.decide()
	return untilWoken
}

// decide lets the start go on, if it still waits.
func (f *fence) decide() {
	select {
	case <-f.decided:
	default:
		close(f.decided)
	}
}

// alone waits until it is known whether this process is the only one of its
// instance, or that the store cannot say so now.
func (f *fence) alone(ctx context.Context) error {
	select {
	case <-f.decided:
	case <-ctx.Done():
		return ctx.Err()
	}
	if rival := f.rival.Load(); rival != nil {
		return rival
	}
	return nil
}

// resign gives the tenure up, so that the next incarnation need not wait. What is
// claimed is that one's to decide from now on, so nothing may be left that sends.
func (f *fence) resign(ctx context.Context) {
	f.until.Store(0)
	if f.bid.Number == 0 || f.rival.Load() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, f.options.Tenure/renewalsPerTenure)
	defer cancel()
	f.bid.Resigns = true
	_ = survive(func() (err error) { // else it ends by itself
		_, _, _, err = f.tenures.Bid(ctx, f.bid)
		return err
	})
}
