package dedupe

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxUnheard bounds the claims to be given back that are remembered: more than there
	// are calls in flight. The lease ends the ones beyond it.
	maxUnheard = 16 << 10
	// together is how many of them are given back at a time: a store may take a second
	// for each, as one does that waits for replicas it has lost, and a lease has thirty.
	together = 64
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
	if final(err) || errors.Is(err, ErrFull) || errors.Is(err, ErrUnconfirmed) || errors.Is(err, ErrUnasked) {
		return // these say that nothing was claimed
	}
	c.keepUnheard(unheard{
		settlement: Settlement{Key: req.Key, Owner: req.Owner, State: NotRun, Retention: req.Retention},
		next:       c.life.now(), pause: settleMax,
	})
	nudge(c.lost)
}

// giveBackRound gives the claims back that are due.
func (c *courier) giveBackRound() (rest time.Duration, wake <-chan struct{}) {
	due, rest := c.takeUnheard()
	if rest != 0 {
		return rest, c.lost
	}
	var tries sync.WaitGroup
	var silent atomic.Int64
	for _, u := range due {
		tries.Go(func() {
			if !c.tryGiveBack(u) {
				silent.Add(1)
			}
		})
	}
	tries.Wait()
	return time.Duration(silent.Load()) * settleFirst, nil // a store that is away is not stormed
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

// takeUnheard takes out the claims that are due, those first that the store is likelier
// to answer for; with a rest other than 0 none is due before that. It forgets those that
// their lease has ended.
func (c *courier) takeUnheard() (due []unheard, rest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.life.now()
	c.unheard = slices.DeleteFunc(c.unheard, func(u unheard) bool { return u.until > 0 && max(now, u.next) >= u.until })
	if len(c.unheard) == 0 {
		c.unheard = nil
		return nil, untilWoken
	}
	slices.SortStableFunc(c.unheard, func(a, b unheard) int { return a.compare(b, now) })
	n := 0
	for n < min(len(c.unheard), together) && c.unheard[n].next <= now {
		n++
	}
	if n == 0 {
		return nil, c.unheard[0].next - now
	}
	due = slices.Clone(c.unheard[:n])
	c.unheard = slices.Delete(c.unheard, 0, n)
	return due, 0
}

// compare sorts claims: the one comes first that is due first; of those that are due, the
// one that the store is likelier to answer for.
func (u unheard) compare(other unheard, now time.Duration) int {
	if u.next <= now && other.next <= now && u.down != other.down {
		return cmp.Compare(u.down, other.down)
	}
	return cmp.Compare(u.next, other.next)
}

// keepUnheard remembers a claim for a try.
func (c *courier) keepUnheard(u unheard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unheard) < maxUnheard {
		c.unheard = append(c.unheard, u)
	}
}
