package dedupe

import (
	"context"
	"errors"
	"time"
)

// maxGhosts bounds the claims to be given back that are remembered. The lease
// ends the ones beyond it.
const maxGhosts = 1024

// ghost is a claim that may exist although nobody here holds it: its request
// failed without an answer. Nothing was sent under it and nothing will be, so
// it is given back as NotRun. Left alone it would stand in the way of the next
// try for a whole lease, and then make a call that never ran Unknown.
type ghost struct {
	settlement Settlement
	until      time.Duration // since Dedupe.born; then the lease has ended it
}

// giveBack remembers to return what a failed request may have claimed.
func (d *Dedupe) giveBack(req Request, err error) {
	if final(err) || errors.Is(err, ErrFull) {
		return // these say that nothing was claimed
	}
	g := ghost{
		settlement: Settlement{Key: req.Key, Owner: req.Owner, State: NotRun, Retention: req.Retention},
		until:      d.elapsed(time.Now().Add(req.Lease)),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.ghosts) >= maxGhosts {
		return
	}
	d.ghosts = append(d.ghosts, g)
	if !d.exorcising {
		d.exorcising = true
		d.tasks.Add(1)
		go d.exorcise() // ends when no ghost is left, or at Close
	}
}

// exorcise gives ghosts back, oldest first, until there is none.
func (d *Dedupe) exorcise() {
	defer d.tasks.Done()
	pause := settleFirst
	for {
		g, ok := d.nextGhost()
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(d.background, settleMax)
		_, err := d.store.Settle(ctx, g.settlement)
		cancel()
		if err == nil || final(err) {
			d.forgetGhost()
			pause = settleFirst
			continue
		}
		if d.wait(d.background, pause, nil) != nil {
			d.stopExorcising()
			return
		}
		pause = min(2*pause, settleMax)
	}
}

// nextGhost returns the oldest ghost whose lease still runs; false, and the end
// of exorcising, when there is none.
func (d *Dedupe) nextGhost() (ghost, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.elapsed(time.Now())
	for len(d.ghosts) > 0 && now >= d.ghosts[0].until {
		d.ghosts = d.ghosts[1:]
	}
	if len(d.ghosts) == 0 {
		d.ghosts, d.exorcising = nil, false
		return ghost{}, false
	}
	return d.ghosts[0], true
}

func (d *Dedupe) forgetGhost() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ghosts = d.ghosts[1:]
}

func (d *Dedupe) stopExorcising() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ghosts, d.exorcising = nil, false
}
