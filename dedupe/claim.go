package dedupe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/internal/tool"
)

// Claim is the right to run one call. It renews its lease by itself for as long as the call
// may last; whoever got it from Admit must Settle it.
type Claim struct {
	dedupe *Dedupe
	key    tool.CallID
	origin Origin // as it was made
	flight *flight
	sent   time.Time // when the request for it was
	// restored: the store had forgotten the claim, and knows it again. It is the timer's own.
	restored bool

	mu    sync.Mutex
	timer *time.Timer // nil once stopped
	// confirmed is when the request was sent by which the store has given the lease last, so
	// that it ends here before it does there; zero when it is known to be lost.
	confirmed time.Time
	giveUp    time.Time // when renewal ends
}

func newClaim(ctx context.Context, d *Dedupe, req *Request, record *Record, f *flight, sent time.Time) *Claim {
	c := &Claim{dedupe: d, key: req.Key, origin: Origin{*record, req.EffectKey, req.Terms}, flight: f, sent: sent, confirmed: sent}
	end, ok := ctx.Deadline()
	if !ok {
		end = sent.Add(d.options.Retention)
	}
	c.giveUp = end.Add(d.options.Lease) // settling may take a little longer
	c.mu.Lock()
	defer c.mu.Unlock()
	// A timer, not a goroutine: most calls end before it ever fires.
	c.timer = time.AfterFunc(d.options.Lease/3, func() { d.life.start(c.renew) })
	return c
}

// Held reports whether the claim is surely still this process's: less than the lease has
// passed, by its own clocks, since the request for it was sent, and nobody has succeeded it. It
// is asked before an effect is started.
func (c *Claim) Held() bool {
	confirmed := c.lately()
	return ahead(confirmed.Add(surely(c.dedupe.options.Lease)), time.Now()) && c.dedupe.fence.covers(confirmed)
}

// Record is the record of the call as it was when the claim was won.
func (c *Claim) Record() Record { return c.origin.Record }

// Now is the store's time, as far as it is known since the claim was won.
func (c *Claim) Now() time.Time { return c.origin.Record.StartedAt.Add(time.Since(c.sent)) }

// KeepUntil says that the call may last until an instant; without it that is the deadline of
// the context that the claim was asked for with.
func (c *Claim) KeepUntil(end time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveUp = end.Add(c.dedupe.options.Lease)
}

// renew asks for more time, from its timer.
func (c *Claim) renew() {
	d, lease, sent := c.dedupe, c.dedupe.options.Lease, time.Now()
	c.mu.Lock()
	stopped, over := c.timer == nil, !sent.Before(c.giveUp)
	c.mu.Unlock()
	switch {
	case stopped:
		return
	case over: // a call that never settles must not hold its claim for ever
		c.abandon()
		return
	}
	ctx, cancel := context.WithTimeout(d.life.background, lease/3)
	defer cancel()
	renewal := Renewal{Key: c.key, Claim: c.origin, Lease: lease, Retention: d.options.Retention}
	var record Record
	var restored bool
	err := Survive(func() (err error) {
		failpoint.Hit(failpoint.RenewalUnsent)
		record, restored, err = d.fence.Renew(ctx, renewal)
		failpoint.Hit(failpoint.RenewalDurable)
		return err
	})
	if restored {
		c.restored = true
		d.outbox.count.forgotten.Add(1)
		d.outbox.log.Error("claim recorded anew: the store had forgotten a running call, and another may have run it meanwhile",
			"call", Settlement{Key: c.key, State: record.State, Epoch: record.Epoch})
	}
	ours := record.Owner == c.origin.Record.Owner && record.Epoch == c.origin.Record.Epoch
	d.outbox.heard(err)
	switch {
	case IsCorrupt(err):
		// Nobody else gets it. Those who wait here are answered by the end of the call.
		c.rest(time.Time{}, 0)
	case err != nil:
		// Not heard is not refused.
		c.rest(c.lately(), lease/10)
	case ours && record.State == Claimed:
		c.rest(sent, lease/3)
	case ours && record.State == Unknown && c.restored:
		// Nothing may be started any more. Those who wait here are answered by the end of
		// the call, and a store that forgets it once more is told again.
		c.rest(time.Time{}, lease/3)
	default:
		c.abandon()
	}
}

// rest notes when the lease was confirmed, the zero time when it is lost, and for how long the
// store is not asked again; 0: for good.
func (c *Claim) rest(confirmed time.Time, pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.timer == nil:
		return
	case pause > 0:
		c.timer.Reset(pause)
	default:
		c.timer.Stop()
		c.timer = nil
	}
	c.confirmed = confirmed
}

func (c *Claim) lately() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.confirmed
}

// abandon ends a claim that is no longer ours: duplicates have to ask the store. The call stays
// known as at work until it is settled.
func (c *Claim) abandon() {
	c.rest(time.Time{}, 0)
	c.dedupe.flights.lose(c.key, c.flight)
}

// Settle ends the claim with what became of the call: State, Attempts, Result, Output, Tokens,
// Appends, Frees and HoldFor of the settlement; the rest is filled in here. An Unknown call whose effect
// may repeat is recorded as NotRun: it may simply run again.
//
// A store that cannot be reached is asked again until ctx ends, for outbox.patience at the most.
// Then the settlement goes to the journal, or memory, for which it has putTimeout whatever ctx says,
// and the verdict is Journaled. Whatever comes of it, the claim is no longer renewed, and duplicates
// that waited here go on. An error means that the settlement may or may not be recorded; ErrUnkept
// that it is not, and that the claim is held as before.
func (c *Claim) Settle(ctx context.Context, s Settlement) (SettleVerdict, error) {
	outbox := c.dedupe.outbox
	s.Key, s.Owner, s.Epoch = c.key, c.origin.Record.Owner, c.origin.Record.Epoch
	s.Retention, s.Claim = c.dedupe.options.Retention, &c.origin
	if s.State == Unknown && c.origin.Record.Effect.Repeatable() {
		s.State = NotRun
	}
	var ended Admission
	unkept := false
	defer func() { // also when the store panics
		if !unkept {
			c.rest(time.Time{}, 0)
			c.dedupe.flights.land(c.key, c.flight, ended, nil)
		}
	}()
	// What became of the call matters more than what else there is to keep.
	if err := s.Output.validate(); err != nil {
		outbox.log.Error("an output that no store takes is not kept", "call", s, "dropped_output_bytes", len(s.Output.Data), "error", err)
		s.Output = nil
	}
	if err := s.validateLoop(); err != nil {
		outbox.log.Error("what no store takes is not kept of a call", "call", s, "error", err)
		s = s.alone()
	}
	verdict, err := c.settle(ctx, s)
	if unkept = s.Output != nil && errors.Is(err, ErrFull); unkept {
		outbox.log.Warn("the store is full: an output is not kept", "call", s, "dropped_output_bytes", len(s.Output.Data))
		return 0, fmt.Errorf("%w: %w", ErrUnkept, err)
	}
	if err != nil {
		// No journal keeps what is only of use while the loop goes on.
		verdict, err = outbox.keep(Late{Settlement: s.alone(), EndedAt: time.Now()}, err)
	} else {
		verdict = outbox.tell(ctx, &s, verdict)
	}
	if err == nil && verdict != Superseded && s.State != NotRun {
		// As the store now has it, but for FinishedAt, which is guessed here.
		ended.Record, _, _ = c.origin.Record.Settle(s, c.Now())
		ended.Journaled = verdict == Journaled
	}
	return verdict, err
}

// settle asks the store until it has the settlement, or says that it never will.
func (c *Claim) settle(ctx context.Context, s Settlement) (verdict SettleVerdict, err error) {
	outbox := c.dedupe.outbox
	ctx, cancel := context.WithTimeout(ctx, outbox.patience())
	defer cancel()
	for pause := settleFirst; ; pause = min(2*pause, settleMax) {
		failpoint.Hit(failpoint.SettlementUnsent)
		verdict, err = c.dedupe.fence.Settle(ctx, s)
		failpoint.Hit(failpoint.SettlementDurable)
		outbox.heard(err)
		if err == nil || final(err) || s.Output != nil && errors.Is(err, ErrFull) {
			return verdict, err
		}
		if stop := c.dedupe.life.wait(ctx, pause/2+rand.N(pause/2), nil); stop != nil {
			return 0, err
		}
	}
}
