package dedupe

import (
	"context"
	"errors"
	"slices"
	"time"
)

const (
	// maxGhosts bounds the claims to be given back that are remembered. The lease
	// ends the ones beyond it.
	maxGhosts = 1024
	// ghostFirst is at least between two tries to give the same claim back, while
	// the store does not answer; settleFirst between those of all of them.
	ghostFirst = 100 * time.Millisecond
)

// ghost is a claim that may exist although nobody here holds it: its request
// failed without an answer. Nothing was sent under it and nothing will be, so
// it is given back as NotRun. Left alone it would stand in the way of the next
// try for a whole lease, and then make a call that never ran Unknown.
//
// The request itself may still be on its way, and make its claim after it was
// given back: what lies in the buffer of a stopped server is read when it goes
// on, in any order. So a claim that was not found is asked after again, until the
// store has answered for the length of a lease.
type ghost struct {
	settlement Settlement
	lease      time.Duration
	until      time.Duration // since Dedupe.born; then the lease has ended it. 0 while the store does not answer
	next       time.Duration // not before, since Dedupe.born
	pause      time.Duration // before it is asked after once more
	down       time.Duration // the same while the store does not answer; 0: it did
}

// giveBack remembers to return what a failed request may have claimed.
func (d *Dedupe) giveBack(req Request, err error) {
	if final(err) || errors.Is(err, ErrFull) {
		return // these say that nothing was claimed
	}
	now := d.elapsed(time.Now())
	g := ghost{
		settlement: Settlement{Key: req.Key, Owner: req.Owner, State: NotRun, Retention: req.Retention},
		lease:      req.Lease, next: now, pause: settleMax,
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.ghosts) >= maxGhosts {
		return
	}
	d.ghosts = append(d.ghosts, g)
	select {
	case d.haunted <- struct{}{}:
	default:
	}
	if !d.exorcising {
		d.exorcising = true
		d.tasks.Add(1)
		go d.exorcise() // ends when no ghost is left, or at Close
	}
}

// exorcise gives ghosts back, the one that is due first, until there is none.
func (d *Dedupe) exorcise() {
	defer d.tasks.Done()
	for {
		g, ok := d.nextGhost()
		if !ok {
			return
		}
		pause, wake := g.next-d.elapsed(time.Now()), d.haunted
		if pause > 0 {
			d.keepGhost(g)
		} else if !d.tryGhost(g) {
			pause, wake = settleFirst, nil
		}
		if pause > 0 && d.wait(d.background, pause, wake) != nil {
			d.stopExorcising()
			return
		}
	}
}

// tryGhost gives a ghost back, or remembers it for another try; false when the
// store does not answer.
func (d *Dedupe) tryGhost(g ghost) bool {
	ctx, cancel := context.WithTimeout(d.background, settleMax)
	defer cancel()
	var verdict SettleVerdict
	err := survive(func() (err error) {
		verdict, err = d.store.Settle(ctx, g.settlement)
		return err
	})
	now := d.elapsed(time.Now())
	switch {
	case err == nil && verdict == Settled || final(err):
		return true
	case err == nil:
		if g.until == 0 {
			g.until = now + g.lease
		}
		g.down, g.next, g.pause = 0, now+g.pause, 2*g.pause
	default:
		// Its lease begins when the request is read at last, which is not before
		// the store answers.
		g.until, g.pause = 0, settleMax
		g.down = min(max(2*g.down, ghostFirst), settleMax)
		g.next = now + g.down
	}
	d.keepGhost(g)
	return err == nil
}

// nextGhost takes out the ghost to be asked after next, unless its lease has
// ended it; false, and the end of exorcising, when there is none.
func (d *Dedupe) nextGhost() (ghost, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.elapsed(time.Now())
	d.ghosts = slices.DeleteFunc(d.ghosts, func(g ghost) bool { return g.until > 0 && max(now, g.next) >= g.until })
	if len(d.ghosts) == 0 {
		d.ghosts, d.exorcising = nil, false
		return ghost{}, false
	}
	first := 0
	for i, g := range d.ghosts {
		if g.before(d.ghosts[first], now) {
			first = i
		}
	}
	g := d.ghosts[first]
	d.ghosts = slices.Delete(d.ghosts, first, first+1)
	return g, true
}

// before reports whether a ghost comes before another: the one that is due first;
// of those that are due, the one that the store is likelier to answer for.
func (g ghost) before(other ghost, now time.Duration) bool {
	if g.next <= now && other.next <= now && g.down != other.down {
		return g.down < other.down
	}
	return g.next < other.next
}

// keepGhost remembers a ghost for another try.
func (d *Dedupe) keepGhost(g ghost) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ghosts = append(d.ghosts, g)
}

func (d *Dedupe) stopExorcising() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ghosts, d.exorcising = nil, false
}
