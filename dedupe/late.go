package dedupe

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// Journaled is the verdict of Claim.Settle alone, no store gives it: the store
// could not be reached in time, the settlement is durable in the journal, and
// the store gets it from there.
const Journaled = Superseded + 1

const (
	// patience is how long a settlement asks a store before it goes to the
	// journal. The caller waits for it; most hiccups of a store are shorter,
	// and most failovers longer than a caller can wait anyway.
	patience = 2 * time.Second
	// patienceDown is the same while the store is known to be down: time for
	// one try, in case it has just come back.
	patienceDown = 250 * time.Millisecond
	// appendTimeout bounds the journal's part: a disk can hang too.
	appendTimeout = 3 * time.Second
)

// late is what a Dedupe with a journal knows about it.
type late struct {
	journal Journal // nil: there is none
	log     *slog.Logger
	// down says that the store did not answer when it was last asked. It makes
	// settlements give up sooner and decides nothing else.
	down atomic.Bool
	wake chan struct{} // the replay has a reason to look now

	// ended counts the entries of the journal that are done, in whatever way.
	ended, replayed, forgotten, superseded, lost atomic.Int64
}

func newLate(o Options) *late {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &late{journal: o.Journal, log: log, wake: make(chan struct{}, 1)}
}

// LateState counts the settlements that did not reach their store in time, or
// that it refused.
type LateState struct {
	// Waiting is how many wait in the journal now.
	Waiting int
	// Replayed is how many the store has taken from the journal since,
	// Superseded how many it did not take, from there or at the end of the call,
	// because somebody else had decided the call.
	Replayed, Superseded int64
	// Forgotten is how many, from the journal or at the end of the call, were of
	// calls that the store knew nothing of any more: it had lost their claims,
	// and may have lost others.
	Forgotten int64
	// Lost is how many neither the store nor the journal has, as far as this
	// process knows: their calls stay unknown.
	Lost int64
	// Damaged is how many damages of the journal's file were found.
	Damaged int64
}

// Late returns the state of the journal since the start of this process; all
// zero but for Lost when there is none.
func (d *Dedupe) Late() LateState {
	l := d.late
	state := LateState{Replayed: l.replayed.Load(), Superseded: l.superseded.Load(), Forgotten: l.forgotten.Load(), Lost: l.lost.Load()}
	if l.journal != nil {
		state.Waiting, state.Damaged = l.journal.Waiting(), l.journal.Damaged()
	}
	return state
}

// patience is how long a settlement may ask the store.
func (l *late) patience(lease time.Duration) time.Duration {
	switch {
	case l.journal == nil:
		return lease
	case l.down.Load():
		return min(lease, patienceDown)
	default:
		return min(lease, patience)
	}
}

// heard notes that the store has answered a request, unless err says that it
// has not.
func (l *late) heard(err error) {
	if err == nil && l.down.Load() && l.down.CompareAndSwap(true, false) {
		l.nudge()
	}
}

// close closes the journal.
func (l *late) close() error {
	if l.journal == nil {
		return nil
	}
	return l.journal.Close()
}

func (l *late) nudge() {
	select {
	case l.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// keep writes a settlement that the store did not take to the journal. It has
// its own time: what was settled has happened.
func (c *Claim) keep(ctx context.Context, s Settlement, storeError error) (SettleVerdict, error) {
	l := c.dedupe.late
	log := l.log.With("call", s, "store_error", storeError)
	switch {
	case errors.Is(storeError, ErrInvalid):
		l.lose(log, storeError) // which is what the journal would say too
		return 0, storeError
	case l.journal == nil:
		l.lose(log, errNoJournal)
		return 0, storeError
	}
	l.down.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
	defer cancel()
	entry := Late{Settlement: s, Claim: c.record, EndedAt: time.Now()}
	err := l.journal.Append(ctx, entry)
	if errors.Is(err, ErrFull) && s.Output != nil {
		// The result matters more than the part of it that was cut.
		log = log.With("dropped_output_bytes", len(s.Output.Data))
		entry.Settlement.Output = nil
		err = l.journal.Append(ctx, entry)
	}
	if err != nil {
		l.lose(log, err)
		return 0, errors.Join(storeError, err)
	}
	log.Error("settlement journaled: the store did not take it in time, and gets it later", "waiting", l.journal.Waiting())
	l.nudge()
	return Journaled, nil
}

var errNoJournal = errors.New("there is no journal")

// lose counts and says that nobody has a settlement.
func (l *late) lose(log *slog.Logger, journalError error) {
	l.lost.Add(1)
	log.Error("settlement lost: neither the store nor the journal took it, and its call stays unknown", "journal_error", journalError)
}

// LogValue shows which call a settlement is of and how it ended; what it says
// stays out of the log.
func (s Settlement) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("tenant", s.Key.Tenant), slog.String("conversation", s.Key.Conversation),
		slog.String("turn", s.Key.Turn), slog.String("tool_use_id", s.Key.ID),
		slog.String("state", s.State.String()), slog.Int64("epoch", s.Epoch))
}

// lookup returns the record of a call that waits in the journal, and the error
// of the store when none does.
func (l *late) lookup(key Key, storeError error) (Record, error) {
	if l.journal == nil {
		return Record{}, storeError
	}
	entry, ok := l.journal.Find(key)
	if !ok {
		return Record{}, storeError
	}
	return entry.Record(), nil
}

// pending answers a request from the journal, when it holds what became of the
// call: ok is false when the store has to be asked. A store that is not known to
// be down gets the entry first and decides then; so a DONE record wins.
func (d *Dedupe) pending(ctx context.Context, req Request) (answer Admission, ok bool) {
	l := d.late
	if l.journal == nil || l.journal.Waiting() == 0 {
		return Admission{}, false
	}
	entry, ok := l.journal.Find(req.Key)
	if !ok {
		return Admission{}, false
	}
	if !l.down.Load() {
		within, cancel := context.WithTimeout(ctx, patienceDown)
		defer cancel()
		if d.endLate(within, entry) == nil {
			return Admission{}, false
		}
		if ctx.Err() == nil { // else it is the caller who has no time
			l.down.Store(true)
		}
	}
	record := entry.Record()
	if record.State != Done && record.State != Unknown {
		return Admission{}, false
	}
	record, verdict, _ := record.Admit(req, record.FinishedAt)
	return Admission{Verdict: verdict, Record: record, Journaled: true}, true
}
