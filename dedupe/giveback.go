package dedupe

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	// maxUnheard bounds the claims to be given back that are remembered. The lease
	// ends the ones beyond it.
	maxUnheard = 1024
	// downFirst is at least between two tries to give the same claim back, while
	// the store does not answer; settleFirst between those of all of them.
	downFirst = 100 * time.Millisecond
)

// unheard is a claim that may exist although nobody here holds it: its request
// failed without an answer. Nothing was sent under it and nothing will be, so
// it is given back as NotRun. Left alone it would stand in the way of the next
// try for a whole lease, and then make a call that never ran Unknown.
//
// The request itself may still be on its way, and make its claim after it was
// given back: what lies in the buffer of a stopped server is read when it goes
// on, in any order. So a claim that was not found is asked after again, until the
// store has answered for the length of a lease.
type unheard struct {
	settlement Settlement
	until      time.Duration // since the start; then the lease has ended it. 0 while the store does not answer
	next       time.Duration // not before, since the start
	pause      time.Duration // before it is asked after once more
	down       time.Duration // the same while the store does not answer; 0: it did
}

// giveBack remembers to return what a failed request may have claimed.
func (c *courier) giveBack(req Request, err error) {
	if final(err) || errors.Is(err, ErrFull) || errors.Is(err, ErrUnconfirmed) {
		return // these say that nothing was claimed
	}
	c.keepUnheard(unheard{
		settlement: Settlement{Key: req.Key, Owner: req.Owner, State: NotRun, Retention: req.Retention},
		next:       c.life.now(), pause: settleMax,
	})
	nudge(c.lost)
}

// giveBackRound gives the claim back that is due first.
func (c *courier) giveBackRound() (rest time.Duration, wake <-chan struct{}) {
	u, rest := c.takeUnheard()
	switch {
	case rest != 0:
		return rest, c.lost
	case !c.tryGiveBack(u):
		return settleFirst, nil
	default:
		return 0, nil
	}
}

// tryGiveBack gives a claim back, or remembers it for another try; false when
// the store does not answer.
func (c *courier) tryGiveBack(u unheard) bool {
	ctx, cancel := context.WithTimeout(c.life.background, settleMax)
	defer cancel()
	var verdict SettleVerdict
	err := survive(func() (err error) {
		verdict, err = c.store.Settle(ctx, u.settlement)
		return err
	})
	now := c.life.now()
	switch {
	case err == nil && verdict == Settled || final(err):
		return true
	case err == nil:
		if u.until == 0 {
			u.until = now + c.lease
		}
		u.down, u.next, u.pause = 0, now+u.pause, 2*u.pause
	default:
		// Its lease begins when the request is read at last, which is not before
		// the store answers.
		u.until, u.pause = 0, settleMax
		u.down = min(max(2*u.down, downFirst), settleMax)
		u.next = now + u.down
	}
	c.keepUnheard(u)
	return err == nil
}

// takeUnheard takes out the claim that is due first; with a rest other than 0
// none is due before that. It forgets those that their lease has ended.
func (c *courier) takeUnheard() (u unheard, rest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.life.now()
	c.unheard = slices.DeleteFunc(c.unheard, func(u unheard) bool { return u.until > 0 && max(now, u.next) >= u.until })
	if len(c.unheard) == 0 {
		c.unheard = nil
		return unheard{}, untilWoken
	}
	first := 0
	for i, u := range c.unheard {
		if u.before(c.unheard[first], now) {
			first = i
		}
	}
	if u = c.unheard[first]; u.next > now {
		return unheard{}, u.next - now
	}
	c.unheard = slices.Delete(c.unheard, first, first+1)
	return u, 0
}

// before reports whether a claim comes before another: the one that is due first;
// of those that are due, the one that the store is likelier to answer for.
func (u unheard) before(other unheard, now time.Duration) bool {
	if u.next <= now && other.next <= now && u.down != other.down {
		return u.down < other.down
	}
	return u.next < other.next
}

// keepUnheard remembers a claim for a try.
func (c *courier) keepUnheard(u unheard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unheard) < maxUnheard {
		c.unheard = append(c.unheard, u)
	}
}
