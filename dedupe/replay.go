package dedupe

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// How long to wait between two tries to replay. After the first of them a request that the
	// store has answered ends the wait.
	replayFirst = 100 * time.Millisecond
	replayMax   = 5 * time.Second
	// replayTimeout bounds one entry's way into the store.
	replayTimeout = 2 * time.Second
)

// round brings what waits in the journal to the store.
func (c *courier) round() (rest time.Duration, wake <-chan struct{}) {
	if c.late.waiting() == 0 {
		c.pause = replayFirst
		return untilWoken, c.late.wake
	}
	ended, err := c.replay(c.life.background)
	switch {
	case err == nil:
		return 0, nil
	case ended > 0:
		c.pause = replayFirst
	default:
		c.down.Store(true)
		if c.pause == replayFirst { // once for each outage
			c.log.Warn("settlements that wait cannot be brought to the store now", "waiting", c.late.waiting(), "error", err)
		}
	}
	if c.life.wait(c.life.background, replayFirst, nil) != nil {
		return untilWoken, nil
	}
	// At random, so that sidecars do not all ask a store that comes back at once.
	rest = c.pause/2 + rand.N(c.pause/2)
	c.pause = min(2*c.pause, replayMax-replayFirst)
	return rest, c.late.wake
}

// replay brings what waits to the store, once.
func (c *courier) replay(ctx context.Context) (ended int, left error) {
	return c.late.replay(ctx, func(ctx context.Context, e Waiting, late Late) error {
		return Survive(func() error { return c.deliver(ctx, e, late) })
	})
}

// deliver brings one entry to the store. An error means that it stays.
func (c *courier) deliver(ctx context.Context, e Waiting, late Late) error {
	if c.life.open.Err() != nil {
		return ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	s := &late.Settlement
	verdict, err := c.store.Settle(ctx, *s)
	if errors.Is(err, ErrFull) && s.Output != nil {
		// The result matters more than the part of it that was cut.
		c.log.Warn("the store is full: an output of the journal is not kept", "call", *s, "dropped_output_bytes", len(s.Output.Data))
		s.Output = nil
		verdict, err = c.store.Settle(ctx, *s)
	}
	if err != nil && !hopeless(err) {
		return err
	}
	c.heard(err)
	ended, removeError := c.late.done(ctx, e)
	log := c.log.With("call", *s, "waiting", c.late.waiting())
	if removeError != nil {
		log.Warn("an entry of the journal cannot be removed: the next process replays it once more", "error", removeError)
	}
	switch {
	case !ended: // somebody else has just ended it too, and has said so
	case err != nil:
		c.count.lost.Add(1)
		log.Error("settlement lost: the store can never take it from the journal", "error", err)
	case c.tell(ctx, s, verdict) == Settled:
		c.count.replayed.Add(1)
		log.Info("settlement replayed from the journal")
	}
	return nil
}

// record returns the record of a call as it waits in the journal; false when it does not, or
// only says that the call did not run: others may have run it since.
func (c *courier) record(ctx context.Context, key tool.CallID) (Record, bool) {
	_, late, waits := c.late.find(ctx, key)
	if !waits || late.Settlement.State == NotRun {
		return Record{}, false
	}
	return late.Record(), true
}

// pending answers a request from the journal, when that holds what became of the call; false
// when the store has to be asked. A store that is not known to be down gets the entry first.
func (c *courier) pending(ctx context.Context, req Request) (answer Admission, ok bool) {
	e, late, waits := c.late.find(ctx, req.Key)
	if !waits {
		return Admission{}, false
	}
	if !c.down.Load() {
		within, cancel := context.WithTimeout(ctx, patienceDown)
		defer cancel()
		if c.deliver(within, e, late) == nil {
			return Admission{}, false
		}
		if ctx.Err() == nil { // else it is the caller who has no time
			c.down.Store(true)
		}
	}
	record, waits := c.record(ctx, req.Key)
	if !waits {
		return Admission{}, false
	}
	record, verdict, _ := record.Admit(req, record.FinishedAt)
	return Admission{Verdict: verdict, Record: record, Journaled: true}, true
}
