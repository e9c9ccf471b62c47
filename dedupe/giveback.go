package dedupe

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

const (
	// maxUnheard bounds the claims to be given back: more than there are calls in flight. The
	// lease ends the ones beyond it.
	maxUnheard = 16 << 10
	// firstTurns is how many are given back at a time: a store that waits for replicas it has
	// lost may take a second for each, and a lease has thirty. downTurns is the same for those
	// of which the store said nothing when it was last asked: they hold up no others, whose
	// server may be there.
	firstTurns, downTurns = 64, 32
	// downFirst is the first pause for a claim of which the store says nothing.
	downFirst = 100 * time.Millisecond
)

// unheard is how claims are given back that may exist although nobody here holds them: their
// requests failed without an answer. Nothing was sent under such a claim, so it is given back
// as NotRun. Left alone it would stand in the way of the next try for a whole lease, and then
// make a call that never ran Unknown.
//
// The request may still be on its way: what lies in the buffer of a stopped server is read when
// it goes on, in any order. So a claim that was not found is asked after again, until the store
// has answered for the length of a lease.
type unheard struct {
	claims      atomic.Int64
	first, down chan struct{} // turns that are taken
}

// giveBack gives back, in the background, what a failed request may have claimed.
func (c *outbox) giveBack(req Request, err error) {
	if final(err) || errors.Is(err, ErrFull) || errors.Is(err, ErrUnasked) {
		return // these say that nothing was claimed
	}
	if c.unheard.claims.Add(1) > maxUnheard || !c.life.start(func() {
		defer c.unheard.claims.Add(-1)
		c.untilGivenBack(Settlement{Key: req.Key, Owner: req.Owner, State: NotRun, Retention: req.Retention})
	}) {
		c.unheard.claims.Add(-1)
	}
}

// untilGivenBack tries to give a claim back until it was, or its lease has surely ended.
func (c *outbox) untilGivenBack(s Settlement) {
	turns, pause := c.unheard.first, downFirst/2
	var until time.Time // when its lease has ended; zero while the store does not answer
	for {
		over, err := c.tryGiveBack(turns, s)
		switch {
		case over:
			return
		case err != nil: // its lease begins when the request is read, not before the store answers
			turns, until, pause = c.unheard.down, time.Time{}, min(2*pause, settleMax)
		case until.IsZero():
			turns, until, pause = c.unheard.first, time.Now().Add(c.lease), settleMax
		default:
			pause *= 2
		}
		if !until.IsZero() && time.Until(until) <= pause || c.life.wait(c.life.background, pause, nil) != nil {
			return
		}
	}
}

// tryGiveBack tries to give a claim back when it is its turn. over says that it need not be
// tried again, the error that the store did not answer.
func (c *outbox) tryGiveBack(turns chan struct{}, s Settlement) (over bool, err error) {
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-c.life.open.Done():
		return true, nil
	}
	ctx, cancel := context.WithTimeout(c.life.background, settleMax)
	defer cancel()
	var verdict SettleVerdict
	err = Survive(func() (err error) {
		verdict, err = c.store.Settle(ctx, s)
		return err
	})
	if err == nil && verdict == Settled || final(err) {
		return true, nil
	}
	if err != nil { // a store that is away is not stormed
		_ = c.life.wait(c.life.background, time.Duration(min(c.unheard.claims.Load(), firstTurns))*settleFirst, nil)
	}
	return false, err
}
