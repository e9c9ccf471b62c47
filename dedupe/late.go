package dedupe

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
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

	// How long to wait between two tries to replay; a request that the store
	// has answered ends the wait at once.
	replayFirst = 100 * time.Millisecond
	replayMax   = 5 * time.Second
	// replayTimeout bounds one entry's way into the store.
	replayTimeout = 2 * time.Second
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

// LateState counts the settlements that did not reach their store in time.
type LateState struct {
	// Waiting is how many wait in the journal now.
	Waiting int
	// Replayed is how many the store has taken since, Superseded how many it
	// did not, because somebody else had decided the call.
	Replayed, Superseded int64
	// Forgotten is how many of those replayed were of calls that the store knew
	// nothing of any more: it had lost their claims, and may have lost others.
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
	if errors.Is(storeError, ErrInvalid) {
		return 0, storeError
	}
	if l.journal == nil {
		l.lost.Add(1)
		return 0, storeError
	}
	l.down.Store(true)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTimeout)
	defer cancel()
	entry := Late{Settlement: s, Claim: c.record, EndedAt: time.Now()}
	err := l.journal.Append(ctx, entry)
	log := l.log.With("call", s, "store_error", storeError)
	if errors.Is(err, ErrFull) && s.Output != nil {
		// The result matters more than the part of it that was cut.
		log = log.With("dropped_output_bytes", len(s.Output.Data))
		entry.Settlement.Output = nil
		err = l.journal.Append(ctx, entry)
	}
	if err != nil {
		l.lost.Add(1)
		log.Error("settlement lost: neither the store nor the journal took it, and its call stays unknown", "journal_error", err)
		return 0, errors.Join(storeError, err)
	}
	log.Error("settlement journaled: the store did not take it in time, and gets it later", "waiting", l.journal.Waiting())
	l.nudge()
	return Journaled, nil
}

// LogValue shows which call a settlement is of and how it ended; what it says
// stays out of the log.
func (s Settlement) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("tenant", s.Key.Tenant), slog.String("conversation", s.Key.Conversation),
		slog.String("turn", s.Key.Turn), slog.String("tool_use_id", s.Key.ID),
		slog.String("state", s.State.String()), slog.Int64("epoch", s.Epoch))
}

// replay brings what waits in the journal to the store, for as long as the
// Dedupe lives.
func (d *Dedupe) replay() {
	defer d.tasks.Done()
	l := d.late
	for pause := replayFirst; ; {
		if l.journal.Waiting() == 0 {
			pause = replayFirst
			if !d.rest(0, nil) {
				return
			}
			continue
		}
		began, ended := time.Now(), l.ended.Load()
		err := l.journal.Replay(d.background, func(ctx context.Context, entry Late) error {
			return survive(func() error { return d.endLate(ctx, entry) })
		})
		if err == nil {
			continue
		}
		if l.ended.Load() > ended {
			pause = replayFirst
		} else {
			l.down.Store(true)
		}
		// Between half and the whole of the pause, so that sidecars do not all
		// ask a store that comes back at once.
		if !d.rest(pause/2+rand.N(pause/2), &began) {
			return
		}
		pause = min(2*pause, replayMax)
	}
}

// rest waits until the replay has a reason to look, or for a pause that is not
// 0; false when the Dedupe ends. With began, at least replayFirst passes since
// then, whatever the reasons.
func (d *Dedupe) rest(pause time.Duration, began *time.Time) bool {
	var over <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-d.late.wake:
	case <-over:
	case <-d.closing:
		return false
	}
	if began == nil {
		return true
	}
	return d.wait(d.background, replayFirst-time.Since(*began), nil) == nil
}

// endLate brings one entry to the store. An error means that it stays.
func (d *Dedupe) endLate(ctx context.Context, entry Late) error {
	if d.isClosed() {
		return ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, replayTimeout)
	defer cancel()
	l := d.late
	verdict, err := d.store.Settle(ctx, entry.Settlement)
	why := ""
	if err == nil && verdict == Superseded {
		verdict, why, err = d.remember(ctx, entry)
	}
	if err != nil && !errors.Is(err, ErrInvalid) {
		return err
	}
	l.heard(nil)
	if !l.journal.Done(entry.Seq) {
		return nil // somebody else has just ended it too, and has said so
	}
	l.ended.Add(1)
	switch {
	case err != nil:
		l.lost.Add(1)
		l.log.Error("settlement lost: the store can never take it from the journal", "call", entry.Settlement, "error", err)
	case verdict == Settled:
		l.replayed.Add(1)
		log := l.log.With("call", entry.Settlement, "waiting", l.journal.Waiting())
		if why != "" {
			l.forgotten.Add(1)
			log.Error("settlement replayed from the journal: the store had forgotten the call, and knows it again")
			break
		}
		log.Info("settlement replayed from the journal")
	default:
		l.superseded.Add(1)
		level := slog.LevelError
		if entry.Claim.Effect.Repeatable() {
			level = slog.LevelWarn // it may run again, and has
		}
		l.log.Log(ctx, level, "settlement superseded: the call was decided otherwise before the journal was replayed, and nothing was overwritten",
			"call", entry.Settlement, "decided", why)
	}
	return nil
}

// remember deals with a settlement that the store did not take as it is. A store
// that has forgotten the call would let it run a second time: it is claimed
// anew, in the same name, and settled as it was. A call that was found unknown
// and provably did not run may run after all. In every other case somebody else
// has decided, and that stands. why is not empty when the store had forgotten,
// and says who decided when somebody has.
func (d *Dedupe) remember(ctx context.Context, entry Late) (verdict SettleVerdict, why string, err error) {
	s := entry.Settlement
	record, err := d.store.Lookup(ctx, s.Key)
	switch {
	case err != nil:
		return 0, "", err
	case record.State == Absent && s.State == NotRun:
		return Settled, "", nil // it may run again, as it might have before
	case record.State == Unknown && s.State == NotRun && record.Owner == s.Owner && record.Epoch == s.Epoch:
		// Somebody saw the lease run out and could not know; this process does.
		s.Resolves = true
		verdict, err = d.store.Settle(ctx, s)
		return verdict, "", err
	case record.State != Absent && (record.Owner != s.Owner || record.Epoch == s.Epoch):
		return Superseded, decided(record), nil
	}
	// Absent, or claimed anew in an earlier try.
	if record.State == Absent {
		admission, err := d.store.Admit(ctx, Request{
			Key: s.Key, Tool: entry.Claim.Tool, Effect: entry.Claim.Effect, Fingerprint: entry.Claim.Fingerprint,
			Owner: s.Owner, Lease: d.options.Lease, Retention: max(s.Retention, d.options.Lease),
		})
		if err != nil {
			return 0, "", err
		}
		if record = admission.Record; admission.Verdict != Won {
			return Superseded, decided(record), nil
		}
	}
	s.Epoch = record.Epoch
	verdict, err = d.store.Settle(ctx, s)
	return verdict, "forgotten", err
}

func decided(record Record) string {
	return record.State.String() + " by " + record.Owner
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
		ctx, cancel := context.WithTimeout(ctx, patienceDown)
		defer cancel()
		if d.endLate(ctx, entry) == nil {
			return Admission{}, false
		}
		l.down.Store(true)
	}
	record := entry.Record()
	if record.State != Done && record.State != Unknown {
		return Admission{}, false
	}
	record, verdict, _ := record.Admit(req, record.FinishedAt)
	return Admission{Verdict: verdict, Record: record, Journaled: true}, true
}
