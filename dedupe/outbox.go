package dedupe

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// patience is how long a settlement asks a store before it goes to the journal. Most hiccups
	// of a store are shorter, and most failovers longer than a caller can wait anyway.
	patience = 2 * time.Second
	// patienceDown is the same while the store is known to be down: time for one try.
	patienceDown = 250 * time.Millisecond
	// How long to wait between two tries to settle.
	settleFirst = 20 * time.Millisecond
	settleMax   = time.Second
	// putTimeout bounds the journal's part: a disk can hang too.
	putTimeout = 3 * time.Second
)

// outbox brings those settlements to the store that reach it later than they should:
//
//	Claim.Settle ── not taken in time ──▶ journal ──▶ replay ───┐
//	                                                            ├──▶ store
//	Ticket.Admit ── answer not heard ───▶ memory ───▶ giveBack ─┘
//
// What tells what became of a call survives the process in the journal. What only gives a claim
// back is in memory: the end of its lease does the same, later.
type outbox struct {
	store Store
	lease time.Duration
	alone time.Duration // the patience without a journal
	life  *life
	log   *slog.Logger

	// down says that the store did not answer when it was last asked. It makes settlements
	// give up sooner and decides nothing else.
	down atomic.Bool

	late  *queue
	pause time.Duration // before the next replay; the round's own
	// volatile: what waits is lost with the process; with a max of 0 nothing may.
	volatile bool

	unheard unheard
	count   struct{ replayed, forgotten, superseded, lost, corrupt atomic.Int64 }
}

func newOutbox(store Store, o Options, l *life) *outbox {
	c := &outbox{
		store: store, lease: o.Lease, alone: o.Patience, life: l, log: o.Log, late: newQueue(o.Journal, o.LateBytes), pause: replayFirst,
		unheard: unheard{first: make(chan struct{}, firstTurns), down: make(chan struct{}, downTurns)},
	}
	_, c.volatile = o.Journal.(*inMemory)
	c.life.rounds(c.round)
	return c
}

// Nudge wakes whoever waits at a channel with room for one value, unless it has one already.
func Nudge(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// close closes the journal, and says what is lost with the process.
func (c *outbox) close() error {
	err := c.late.close()
	if c.volatile {
		_, _ = c.late.replay(context.Background(), func(_ context.Context, e Waiting, late Late) error { // it takes all
			_, _ = c.late.done(context.Background(), e)
			c.lose(c.log.With("call", late.Settlement), errors.New("there is no journal, and the process ends"))
			return nil
		})
	}
	return err
}

// heard notes that the store has answered a request, unless err says that it has not. A record
// that it cannot read is an answer, and is told an operator.
func (c *outbox) heard(err error) {
	if IsCorrupt(err) {
		c.count.corrupt.Add(1)
		c.log.Error("a record is corrupt: nobody can tell from it what became of its call, which is not run until somebody has looked at it", "error", err)
		err = nil
	}
	if err == nil && c.down.Load() && c.down.CompareAndSwap(true, false) {
		Nudge(c.late.wake)
	}
}

func (c *outbox) patience() time.Duration {
	switch {
	case c.volatile:
		return c.alone
	case c.down.Load():
		return min(c.lease, patienceDown)
	default:
		return min(c.lease, patience)
	}
}

// final reports errors that asking again cannot change.
func final(err error) bool {
	_, failed := errors.AsType[*FailedError](err)
	_, ousted := errors.AsType[*RivalError](err)
	return failed || ousted || hopeless(err) || errors.Is(err, ErrClosed) || errors.Is(err, ErrLayout)
}

// hopeless reports that no store will ever take a request.
func hopeless(err error) bool { return errors.Is(err, ErrInvalid) || IsCorrupt(err) }

// keep writes a settlement that the store did not take to the journal. It has its own time:
// what was settled has happened.
func (c *outbox) keep(late Late, storeError error) (SettleVerdict, error) {
	log := c.log.With("call", late.Settlement, "store_error", storeError)
	switch {
	case hopeless(storeError):
		c.lose(log, storeError) // which is what the journal would say too
		return 0, storeError
	case c.volatile && (c.late.max == 0 || final(storeError)): // it does not come back
		c.lose(log, errors.New("there is no journal"))
		return 0, storeError
	}
	c.down.Store(true)
	err := inTime(time.After(putTimeout), func() error { return c.write(log, late) })
	if errors.Is(err, errSlowDisk) {
		log.Error("the journal's disk is slow: the caller is told that its result is not recorded, which it may be all the same")
	}
	if err != nil {
		return 0, errors.Join(storeError, err)
	}
	return Journaled, nil
}

// inTime waits for a disk, which can hang, until it is late: what it does ends by itself.
func inTime(late <-chan time.Time, disk func() error) error {
	done := make(chan error, 1)
	go func() { done <- disk() }()
	select {
	case err := <-done:
		return err
	case <-late:
		return errSlowDisk
	}
}

// write writes a late settlement to the journal, and tells what came of it, whether or not
// anybody waits for it still.
func (c *outbox) write(log *slog.Logger, late Late) error {
	err := c.late.put(late)
	if output := late.Settlement.Output; err != nil && output != nil {
		// The result matters more than the part of it that was cut.
		log = log.With("dropped_output_bytes", len(output.Data))
		late.Settlement.Output = nil
		err = c.late.put(late)
	}
	switch {
	case err != nil:
		c.lose(log, err)
	case c.volatile:
		log.Error("settlement kept in memory: the store did not take it in time, and gets it later if this process lives until then", "waiting", c.late.waiting())
	default:
		log.Error("settlement journaled: the store did not take it in time, and gets it later", "waiting", c.late.waiting())
	}
	return err
}

var errSlowDisk = errors.New("the journal's disk did not answer in time")

func (c *outbox) lose(log *slog.Logger, journalError error) {
	c.count.lost.Add(1)
	log.Error("settlement lost: neither the store nor the journal took it, and its call stays unknown", "journal_error", journalError)
}

// tell counts and logs what the store has made of the settlement of a claim, if it is not what
// was to be expected. It returns Settled or Superseded.
func (c *outbox) tell(ctx context.Context, s *Settlement, verdict SettleVerdict) SettleVerdict {
	if verdict == SettledAnew {
		c.count.forgotten.Add(1)
		c.log.Error("settlement recorded anew: the store had forgotten the call, and knows it again", "call", *s)
		return Settled
	}
	if verdict == Superseded {
		c.count.superseded.Add(1)
		level := slog.LevelError
		if s.Claim.Record.Effect.Repeatable() {
			level = slog.LevelWarn // it may run again, and has
		}
		decided := "the store does not say how"
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if known, err := c.store.Note(ctx, Note{Key: s.Key}); err == nil {
			decided = known.Record.State.String() + " by " + known.Record.Owner
		}
		c.log.Log(ctx, level, "settlement superseded: the call was decided otherwise before, and nothing was overwritten", "call", *s, "decided", decided)
	}
	return verdict
}

// LateState counts the settlements that did not reach their store in time, or that it refused.
type LateState struct {
	Waiting    int   // in the journal now
	Replayed   int64 // the store has taken them from the journal since
	Superseded int64 // it did not take them, for somebody else had decided the call
	Forgotten  int64 // it had lost the claim, as was seen here or at a renewal
	Lost       int64 // neither it nor the journal has them: their calls stay unknown
	Damaged    int64 // entries of the journal that cannot be read
	InMemory   bool  // what waits is lost with the process, for there is no journal
}

const (
	// How long to wait between two tries to replay. After the first of them a request that the
	// store has answered ends the wait.
	replayFirst = 100 * time.Millisecond
	replayMax   = 5 * time.Second
	// replayTimeout bounds one entry's way into the store.
	replayTimeout = 2 * time.Second
)

func (c *outbox) round() (rest time.Duration, wake <-chan struct{}) {
	if c.late.waiting() == 0 {
		c.pause = replayFirst
		return untilWoken, c.late.wake
	}
	ended, err := c.late.replay(c.life.background, c.deliver)
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

// deliver brings one entry to the store. An error means that it stays.
func (c *outbox) deliver(ctx context.Context, e Waiting, late Late) error {
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
func (c *outbox) record(ctx context.Context, key tool.CallID) (Record, bool) {
	_, late, waits := c.late.find(ctx, key)
	if !waits || late.Settlement.State == NotRun {
		return Record{}, false
	}
	record, _, _ := late.Settlement.Claim.Record.Settle(late.Settlement, late.EndedAt)
	return record, true
}

// pending answers a request from the journal, when that holds what became of the call; false
// when the store has to be asked. A store that is not known to be down gets the entry first.
func (c *outbox) pending(ctx context.Context, req Request) (answer Admission, ok bool) {
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
