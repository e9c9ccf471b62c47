package dedupe

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/sidecall/sidecall/tool"
)

const (
	// How long to wait between two tries to replay; a request that the store
	// has answered ends the wait at once.
	replayFirst = 100 * time.Millisecond
	replayMax   = 5 * time.Second
	// replayTimeout bounds one entry's way into the store.
	replayTimeout = 2 * time.Second
)

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
	if output := entry.Settlement.Output; errors.Is(err, ErrFull) && output != nil {
		// The result matters more than the part of it that was cut.
		entry.Settlement.Output = nil
		if verdict, err = d.store.Settle(ctx, entry.Settlement); err == nil {
			l.log.Warn("the store is full: an output of the journal is not kept", "call", entry.Settlement, "dropped_output_bytes", len(output.Data))
		}
	}
	why := ""
	if err == nil && verdict == Superseded {
		verdict, why, err = d.remember(ctx, entry)
	}
	if err != nil && !errors.Is(err, ErrInvalid) {
		return err
	}
	l.heard(nil)
	if l.journal.Done(entry.Seq) { // else somebody else has just ended it too, and has said so
		l.tell(ctx, entry, verdict, why, err)
	}
	return nil
}

// tell counts and logs how an entry ended.
func (l *late) tell(ctx context.Context, entry Late, verdict SettleVerdict, why string, err error) {
	l.ended.Add(1)
	log := l.log.With("call", entry.Settlement, "waiting", l.journal.Waiting())
	switch {
	case err != nil:
		l.lost.Add(1)
		log.Error("settlement lost: the store can never take it from the journal", "error", err)
	case verdict == Settled && why != "":
		l.replayed.Add(1)
		l.forgotten.Add(1)
		log.Error("settlement replayed from the journal: the store had forgotten the call, and knows it again")
	case verdict == Settled:
		l.replayed.Add(1)
		log.Info("settlement replayed from the journal")
	default:
		l.superseded.Add(1)
		log.Log(ctx, supersededLevel(entry.Claim.Effect), "settlement superseded: the call was decided otherwise before the journal was replayed, and nothing was overwritten",
			"decided", why)
	}
}

// tellRefused counts and logs what became of a settlement that went straight to
// the store and was refused at first.
func (l *late) tellRefused(ctx context.Context, s Settlement, effect tool.Effect, verdict SettleVerdict, why string) {
	switch {
	case verdict != Settled:
		l.superseded.Add(1)
		l.log.Log(ctx, supersededLevel(effect), "settlement superseded: the call was decided otherwise before it ended, and nothing was overwritten",
			"call", s, "decided", why)
	case why != "":
		l.forgotten.Add(1)
		l.log.Error("settlement recorded anew: the store had forgotten the call, and knows it again", "call", s)
	}
}

// supersededLevel is how bad it is that a call was decided otherwise.
func supersededLevel(effect tool.Effect) slog.Level {
	if effect.Repeatable() {
		return slog.LevelWarn // it may run again, and has
	}
	return slog.LevelError
}

// remember deals with a settlement that the store did not take as it is. A store
// that has forgotten the call would let it run a second time: it is claimed
// anew, in the same name, and settled as it was, also when somebody else has
// claimed it meanwhile and did not run it. A call that was found unknown and
// provably did not run may run after all. In every other case somebody else has
// decided, and that stands. why is not empty when the store had forgotten, and
// says who decided when somebody has.
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
	}
	// Claims that came later count on from one that the store still knows.
	forgotten := record.Epoch <= s.Epoch // 0 of one that is absent
	free := record.State == Absent
	if record.State == NotRun && record.Owner != s.Owner {
		// Who knows that it ran knows better than all who came later; who does not
		// know may have been resolved since.
		free = s.State == Done || s.State == Unknown && forgotten
	}
	if !free && (record.Owner != s.Owner || record.Epoch == s.Epoch) {
		return Superseded, decided(record), nil
	}
	if free { // else claimed anew in an earlier try
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
	if forgotten {
		why = "forgotten"
	}
	verdict, err = d.store.Settle(ctx, s)
	return verdict, why, err
}

func decided(record Record) string {
	return record.State.String() + " by " + record.Owner
}
