package dedupe

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

const (
	// appendTimeout bounds the journal's part: a disk can hang too.
	appendTimeout = 3 * time.Second
	// How long to wait between two tries to replay; a request that the store
	// has answered ends the wait at once.
	replayFirst = 100 * time.Millisecond
	replayMax   = 5 * time.Second
	// replayTimeout bounds one entry's way into the store.
	replayTimeout = 2 * time.Second
)

// keep writes a settlement that the store did not take to the journal. It has
// its own time: what was settled has happened.
func (c *courier) keep(ctx context.Context, entry Late, storeError error) (SettleVerdict, error) {
	log := c.log.With("call", entry.Settlement, "store_error", storeError)
	switch {
	case hopeless(storeError):
		c.lose(log, storeError) // which is what the journal would say too
		return 0, storeError
	case c.journal == nil, c.volatile && final(storeError): // it does not come back
		c.lose(log, errNoJournal)
		return 0, storeError
	}
	c.down.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
	defer cancel()
	err := c.journal.Append(ctx, entry)
	if output := entry.Settlement.Output; errors.Is(err, ErrFull) && output != nil {
		// The result matters more than the part of it that was cut.
		log = log.With("dropped_output_bytes", len(output.Data))
		entry.Settlement.Output = nil
		err = c.journal.Append(ctx, entry)
	}
	if err != nil {
		c.lose(log, err)
		return 0, errors.Join(storeError, err)
	}
	what := "settlement journaled: the store did not take it in time, and gets it later"
	if c.volatile {
		what = "settlement kept in memory: the store did not take it in time, and gets it later if this process lives until then"
	}
	log.Error(what, "waiting", c.journal.Waiting())
	nudge(c.late)
	return Journaled, nil
}

var (
	errNoJournal   = errors.New("there is no journal")
	errProcessEnds = errors.New("there is no journal, and the process ends")
)

// lose counts and says that nobody has a settlement.
func (c *courier) lose(log *slog.Logger, journalError error) {
	c.count.lost.Add(1)
	log.Error("settlement lost: neither the store nor the journal took it, and its call stays unknown", "journal_error", journalError)
}

// replayRound brings what waits in the journal to the store.
func (c *courier) replayRound() (rest time.Duration, wake <-chan struct{}) {
	if c.journal.Waiting() == 0 {
		c.replayPause, c.triedAt = replayFirst, time.Time{}
		return untilWoken, c.late
	}
	if early := replayFirst - time.Since(c.triedAt); early > 0 {
		return early, nil // whatever woke it
	}
	began, ended := time.Now(), c.count.ended.Load()
	err := c.replay(c.life.background)
	if err == nil {
		return 0, nil
	}
	c.triedAt = began
	if c.count.ended.Load() > ended {
		c.replayPause = replayFirst
	} else {
		c.down.Store(true)
	}
	// Between half and the whole of the pause, so that sidecars do not all
	// ask a store that comes back at once.
	rest = c.replayPause/2 + rand.N(c.replayPause/2)
	c.replayPause = min(2*c.replayPause, replayMax)
	return rest, c.late
}

// replay brings what waits to the store, once.
func (c *courier) replay(ctx context.Context) error {
	return c.journal.Replay(ctx, func(ctx context.Context, entry Late) error {
		return survive(func() error { return c.deliver(ctx, entry) })
	})
}

// deliver brings one entry to the store. An error means that it stays.
func (c *courier) deliver(ctx context.Context, entry Late) error {
	if c.life.isClosed() {
		return ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	verdict, err := c.store.Settle(ctx, entry.Settlement)
	if output := entry.Settlement.Output; errors.Is(err, ErrFull) && output != nil {
		// The result matters more than the part of it that was cut.
		entry.Settlement.Output = nil
		if verdict, err = c.store.Settle(ctx, entry.Settlement); err == nil {
			c.log.Warn("the store is full: an output of the journal is not kept", "call", entry.Settlement, "dropped_output_bytes", len(output.Data))
		}
	}
	why := ""
	if err == nil && verdict == Superseded {
		verdict, why, err = c.remember(ctx, entry)
	}
	if err != nil && !hopeless(err) {
		return err
	}
	if IsCorrupt(err) {
		c.heard(err)
	} else {
		c.heard(nil)
	}
	if c.journal.Done(entry.Seq) { // else somebody else has just ended it too, and has said so
		c.tell(ctx, entry, verdict, why, err)
	}
	return nil
}

// tell counts and logs how an entry ended.
func (c *courier) tell(ctx context.Context, entry Late, verdict SettleVerdict, why string, err error) {
	c.count.ended.Add(1)
	log := c.log.With("call", entry.Settlement, "waiting", c.journal.Waiting())
	switch {
	case err != nil:
		c.count.lost.Add(1)
		log.Error("settlement lost: the store can never take it from the journal", "error", err)
	case verdict == Settled && why != "":
		c.count.replayed.Add(1)
		c.count.forgotten.Add(1)
		log.Error("settlement replayed from the journal: the store had forgotten the call, and knows it again")
	case verdict == Settled:
		c.count.replayed.Add(1)
		log.Info("settlement replayed from the journal")
	default:
		c.count.superseded.Add(1)
		log.Log(ctx, supersededLevel(entry.Claim.Effect), "settlement superseded: the call was decided otherwise before the journal was replayed, and nothing was overwritten",
			"decided", why)
	}
}

// lookup returns the record of a call that waits in the journal, and the error
// of the store when none does.
func (c *courier) lookup(key Key, storeError error) (Record, error) {
	if c.journal == nil {
		return Record{}, storeError
	}
	entry, ok := c.journal.Find(key)
	if !ok {
		return Record{}, storeError
	}
	return entry.Record(), nil
}

// pending answers a request from the journal, when it holds what became of the
// call: ok is false when the store has to be asked. A store that is not known to
// be down gets the entry first and decides then; so a DONE record wins.
func (c *courier) pending(ctx context.Context, req Request) (answer Admission, ok bool) {
	if c.journal == nil || c.journal.Waiting() == 0 {
		return Admission{}, false
	}
	entry, ok := c.journal.Find(req.Key)
	if !ok {
		return Admission{}, false
	}
	if !c.down.Load() {
		within, cancel := context.WithTimeout(ctx, patienceDown)
		defer cancel()
		if c.deliver(within, entry) == nil {
			return Admission{}, false
		}
		if ctx.Err() == nil { // else it is the caller who has no time
			c.down.Store(true)
		}
	}
	record := entry.Record()
	if record.State != Done && record.State != Unknown {
		return Admission{}, false
	}
	record, verdict, _ := record.Admit(req, record.FinishedAt)
	return Admission{Verdict: verdict, Record: record, Journaled: true}, true
}
