package dedupe

import (
	"context"
	"errors"
	"slices"
	"time"
)

// maxGhosts bounds the claims to be given back that are remembered. The lease
// ends the ones beyond it.
const maxGhosts = 1024

// ghost is a claim that may exist although nobody here holds it: its request
// failed without an answer. Nothing was sent under it and nothing will be, so
// it is given back as NotRun. Left alone it would stand in the way of the next
// try for a whole lease, and then make a call that never ran Unknown.
//
// The request itself may still be on its way, and make its claim after it was
// given back: what lies in the buffer of a stopped server is read when it goes
// on, in any order. So a claim that was not found is asked after again.
type ghost struct {
	settlement Settlement
	until      time.Duration // since Dedupe.born; then the lease has ended it
	next       time.Duration // not before, since Dedupe.born
	pause      time.Duration // before it is asked after once more
}

// giveBack remembers to return what a failed request may have claimed.
func (d *Dedupe) giveBack(req Request, err error) {
	if final(err) || errors.Is(err, ErrFull) {
		return // these say that nothing was claimed
	}
	now := d.elapsed(time.Now())
	g := ghost{
		settlement: Settlement{Key: req.Key, Owner: req.Owner, State: NotRun, Retention: req.Retention},
		until:      now + req.Lease, next: now, pause: settleMax,
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
	down := settleFirst
	for {
		g, ok := d.nextGhost()
		if !ok {
			return
		}
		if early := g.next - d.elapsed(time.Now()); early > 0 {
			d.keepGhost(g)
			if d.wait(d.background, early, d.haunted) != nil {
				d.stopExorcising()
				return
			}
			continue
		}
		ctx, cancel := context.WithTimeout(d.background, settleMax)
		var verdict SettleVerdict
		err := survive(func() (err error) {
			verdict, err = d.store.Settle(ctx, g.settlement)
			return err
		})
		cancel()
		switch {
		case err == nil && verdict == Settled || final(err):
			down = settleFirst
		case err == nil:
			down = settleFirst
			g.next, g.pause = d.elapsed(time.Now())+g.pause, 2*g.pause
			d.keepGhost(g)
		default:
			d.keepGhost(g) // still due
			if d.wait(d.background, down, nil) != nil {
				d.stopExorcising()
				return
			}
			down = min(2*down, settleMax)
		}
	}
}

// nextGhost takes out the ghost that is due first and whose lease still runs;
// false, and the end of exorcising, when there is none.
func (d *Dedupe) nextGhost() (ghost, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.elapsed(time.Now())
	d.ghosts = slices.DeleteFunc(d.ghosts, func(g ghost) bool { return max(now, g.next) >= g.until })
	if len(d.ghosts) == 0 {
		d.ghosts, d.exorcising = nil, false
		return ghost{}, false
	}
	first := 0
	for i, g := range d.ghosts {
		if g.next < d.ghosts[first].next {
			first = i
		}
	}
	g := d.ghosts[first]
	d.ghosts = slices.Delete(d.ghosts, first, first+1)
	return g, true
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
