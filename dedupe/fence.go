package dedupe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrUnconfirmed is why nothing is claimed, renewed, settled or sent by a process that cannot be
// sure to be the only one of its instance.
var ErrUnconfirmed = errors.New("the store has not confirmed that this process is the only one of its instance")

// surely is how much can be counted on of a lease or a tenure, from before it was asked for: the
// store's clock may tick slightly faster than ours, and counts whole milliseconds.
func surely(given time.Duration) time.Duration {
	return given - max(given/100, 2*time.Millisecond)
}

// ahead reports that an instant is not reached, by both clocks: the monotonic one does not count
// the time that a machine sleeps, the wall clock may be set.
func ahead(until, now time.Time) bool {
	return now.Before(until) && now.Round(0).Before(until.Round(0))
}

// fence is the store of a process that may have a successor. It is asked to change something only
// while its process is surely the only one of its instance; it can always be looked into. Claims
// are asked for past it, by Ticket.ask, which awaits it. The tenure counts from before its renewal
// was sent, so that it ends here before the store lets anybody else have it.
type fence struct {
	Store

	tenures Tenures // nil where there are no instances
	options Options
	life    *life
	heard   func(error) // told of each answer of the store
	ousted  chan error  // gets a RivalError

	known atomic.Pointer[standing]

	// The rest is the goroutine's own.
	bid Bid
	// first is another's tenure as it was first seen, last a tenure as it last was.
	first, last Tenure
	looks       int // since another's has changed, looksPerTenure of them in a tenure's time
	lapsed      bool
}

// standing is what a process knows of its tenure.
type standing struct {
	head  string    // how the owners of this incarnation begin; empty until it has a number
	until time.Time // how long the tenure surely lasts
	// since is when the store lost what it knew of the tenure: until it was written again
	// somebody else may have had it, and have decided what was claimed before.
	since   time.Time
	why     error         // the store did not confirm the tenure; a *RivalError stays
	decided bool          // the start need not wait any more
	over    chan struct{} // closed when it is known otherwise
}

func newFence(store Store, o Options, l *life) *fence {
	f := &fence{Store: store, options: o, life: l}
	if tenures, ok := store.(Tenures); ok && o.Instance != "" {
		f.tenures, f.ousted = tenures, make(chan error, 1)
		f.bid = Bid{Instance: o.Instance, Token: rand.Text(), Who: o.Who, TTL: o.Tenure, Keep: max(o.Retention, o.Tenure)}
	}
	f.known.Store(&standing{decided: f.tenures == nil, over: make(chan struct{})})
	return f
}

// learn changes what is known, and tells who waits for it.
func (f *fence) learn(change func(*standing)) {
	before := f.known.Load()
	next := *before
	next.over = make(chan struct{})
	change(&next)
	f.known.Store(&next)
	close(before.over)
}

func (f *fence) wait(ctx context.Context, enough func(*standing) bool) (err error) {
	known := f.known.Load()
	for ; err == nil && !enough(known); known = f.known.Load() {
		err = f.life.wait(ctx, untilWoken, known.over)
	}
	return err
}

// holds reports that nobody else can be this instance now.
func (f *fence) holds(known *standing) bool {
	return f.tenures == nil || ahead(known.until, time.Now())
}

// check says why nothing may be done; nil while the tenure holds.
func (f *fence) check() error {
	known := f.known.Load()
	switch {
	case f.holds(known):
		return nil
	case known.why != nil:
		return fmt.Errorf("%w: %w", ErrUnconfirmed, known.why)
	}
	return ErrUnconfirmed
}

// covers reports that nobody else can be this instance, nor was since a claim was confirmed.
func (f *fence) covers(claimed time.Time) bool {
	known := f.known.Load()
	return f.holds(known) && claimed.After(known.since)
}

// await is check for who is about to begin something, and would be refused only because this
// process stood still for a while: it is soon known whether another has succeeded it. A store that
// was asked and did not confirm it is not waited for.
func (f *fence) await(ctx context.Context) error {
	if f.check() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.options.Tenure)
	defer cancel()
	_ = f.wait(ctx, func(known *standing) bool { return known.why != nil || f.holds(known) }) // check says more
	return f.check()
}

// succeeds reports that an owner is of an earlier incarnation, which is gone.
func (f *fence) succeeds(owner string) bool {
	return succeeds(f.known.Load().head, owner) && f.check() == nil
}

// Recall answers a request from the record alone, and with the error because where something would
// be claimed, or changed.
func Recall(ctx context.Context, store Store, req Request, because error) (Admission, error) {
	seen, err := store.Note(ctx, Note{Key: req.Key})
	if err != nil {
		return Admission{}, err
	}
	answer, known := req.recall(seen.Record)
	if !known {
		return Admission{}, because
	}
	return answer, nil
}

// Settle implements Store. To give a claim back that nobody heard of takes no tenure: that nothing
// was sent under it is true whoever is this instance now.
func (f *fence) Settle(ctx context.Context, settlement Settlement) (SettleVerdict, error) {
	if err := f.check(); err != nil && (settlement.Epoch != 0 || settlement.Resolves) {
		return 0, err
	}
	settlement.Receipt = f.options.Receipts
	return f.Store.Settle(ctx, settlement)
}

func (f *fence) Renew(ctx context.Context, renewal Renewal) (record Record, restored bool, err error) {
	if err := f.check(); err != nil {
		return Record{}, false, err
	}
	return f.Store.Renew(ctx, renewal)
}

const (
	// renewalsPerTenure and looksPerTenure are how often a tenure is renewed, and looked at by
	// who waits for its end, while it lasts.
	renewalsPerTenure, looksPerTenure = 5, 20
	// alive is how many renewals show that a holder lives: one was perhaps under way when it died.
	alive = 2
)

func (f *fence) round() (rest time.Duration, wake <-chan struct{}) {
	ctx, cancel := context.WithTimeout(f.life.background, f.options.Tenure/2)
	defer cancel()
	sent := time.Now()
	var before, after Tenure
	err := Survive(func() (err error) {
		before, after, err = f.tenures.Bid(ctx, f.bid)
		return err
	})
	switch {
	case err != nil:
		f.unanswered(err)
		return f.options.Tenure / looksPerTenure, nil
	case after.Token != f.bid.Token:
		return f.occupied(after), nil
	}
	f.confirm(sent, before, after)
	return max(f.options.Tenure/renewalsPerTenure-time.Since(sent), 0), nil
}

// unanswered: the start does not wait for a store that is away.
func (f *fence) unanswered(err error) {
	f.learn(func(known *standing) {
		known.why, known.decided = errors.New(err.Error()), true // its text alone: it is not about the call that is told
	})
	if f.bid.Number != 0 && !f.lapsed && f.check() != nil {
		f.lapsed = true
		f.options.Log.Warn("the store does not confirm this instance: nothing is claimed, sent or settled until it does", "instance", f.options.Instance, "error", err)
	}
}

// confirm notes that the tenure is this process's, from before it was asked for.
func (f *fence) confirm(sent time.Time, before, after Tenure) {
	forgotten := f.bid.Number != 0 && after.Renewals <= f.last.Renewals // it counts them anew
	log := f.options.Log.With("instance", f.options.Instance, "incarnation", after.Number)
	switch {
	case f.bid.Number == 0:
		if before.Token != "" && before.Token != f.bid.Token {
			log = log.With("over_from", before.Who.String(), "had_ended_well", before.Until.IsZero())
		}
		log.Info("instance taken")
	case forgotten:
		log.Warn("the store had forgotten this instance: what was claimed before is sent only once the store has confirmed it")
	case f.lapsed:
		log.Info("the store confirms this instance again")
	}
	f.bid.Number, f.bid.Gone, f.bid.Looks, f.lapsed, f.last = after.Number, Tenure{}, false, false, after
	f.learn(func(known *standing) {
		if forgotten {
			known.since = sent
		}
		known.head = ownerOf(f.options.Instance, after.Number)
		known.until, known.why, known.decided = sent.Add(surely(f.options.Tenure)), nil, true
	})
	f.heard(nil)
}

// occupied deals with another's tenure: after one's own it is the end. Before, it is watched until
// its holder is known to be gone, or alive.
func (f *fence) occupied(other Tenure) (rest time.Duration) {
	if f.bid.Number != 0 {
		return f.end(other.Who)
	}
	if other.Token != f.first.Token {
		f.first = other
		why := errors.New("it waits for the end of another process of this instance, or a sign that it lives: " + other.Who.String())
		f.learn(func(known *standing) { known.why = why })
		f.options.Log.Info(why.Error(), "instance", f.options.Instance)
	}
	if other.Token != f.last.Token || other.Renewals != f.last.Renewals {
		f.last, f.looks = other, 0
	}
	f.looks++
	f.bid.Looks = true // it has been seen: from now on it has to be seen not to be renewed
	switch {
	case f.looks > looksPerTenure, f.options.Gone != nil && f.options.Gone(other.Who):
		// By looks, and not by time: a process that stood still has seen nothing.
		f.bid.Gone = other
		return 0
	case other.Renewals-f.first.Renewals >= alive:
		return f.end(other.Who)
	default:
		return f.options.Tenure / looksPerTenure
	}
}

func (f *fence) end(other Who) (rest time.Duration) {
	rival := &RivalError{Instance: f.options.Instance, Other: other}
	f.learn(func(known *standing) { known.until, known.why, known.decided = time.Time{}, rival, true })
	f.ousted <- rival
	return untilWoken
}

// resign gives the tenure up, so that the next incarnation need not wait. What is claimed is that
// one's to decide from now on, so nothing may be left that sends.
func (f *fence) resign(ctx context.Context) {
	f.learn(func(known *standing) { known.until = time.Time{} })
	if _, ousted := errors.AsType[*RivalError](f.known.Load().why); ousted || f.bid.Number == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, f.options.Tenure/renewalsPerTenure)
	defer cancel()
	f.bid.Resigns = true
	_ = Survive(func() (err error) { // else it ends by itself
		_, _, err = f.tenures.Bid(ctx, f.bid)
		return err
	})
}
