package dedupe

import (
	"context"
	"errors"
	"time"
)

const (
	// renewalsPerTenure and looksPerTenure are how often a tenure is renewed, and looked at by
	// who waits for its end, while it lasts.
	renewalsPerTenure, looksPerTenure = 5, 20
	// alive is how many renewals show that a holder lives: one was perhaps under way when it died.
	alive = 2
)

// round renews the tenure, or tries to get it.
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
			log = log.With("over_from", decodeWho(before.Who).String(), "had_ended_well", before.Until.IsZero())
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
	who := decodeWho(other.Who)
	if f.bid.Number != 0 {
		return f.end(who)
	}
	if other.Token != f.first.Token {
		f.first = other
		why := errors.New("it waits for the end of another process of this instance, or a sign that it lives: " + who.String())
		f.learn(func(known *standing) { known.why = why })
		f.options.Log.Info(why.Error(), "instance", f.options.Instance)
	}
	if other.Token != f.last.Token || other.Renewals != f.last.Renewals {
		f.last, f.looks = other, 0
	}
	f.looks++
	f.bid.Looks = true // it has been seen: from now on it has to be seen not to be renewed
	switch {
	case f.looks > looksPerTenure, f.options.Gone != nil && f.options.Gone(who):
		// By looks, and not by time: a process that stood still has seen nothing.
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
