package dedupe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/failpoint"
)

// Claim is the right to run one call. It renews its lease by itself for as long
// as the call may last; whoever got it from Admit must Settle it.
type Claim struct {
	process *process
	key     Key
	record  Record
	effect  EffectKey
	flight  *flight
	sent    time.Time // when the request for it was

	// heldUntil is the end of the lease as far as this process can know, as
	// time since Dedupe.born: counted from before the request was sent, so it
	// is never later than the end that the store knows.
	heldUntil atomic.Int64

	// forgotten says that the store has forgotten the claim, and was told of it
	// again. It is the timer's own.
	forgotten bool

	mu    sync.Mutex
	timer *time.Timer // nil once stopped
	// giveUpAt is when renewal ends, as time since Dedupe.born: a call that
	// never settles must not hold its claim for ever.
	giveUpAt time.Duration
}

// newClaim returns the claim that a request sent at an instant has won.
func newClaim(ctx context.Context, p *process, req *Request, record Record, f *flight, sent time.Time) *Claim {
	c := &Claim{process: p, key: req.Key, record: record, effect: req.EffectKey, flight: f, sent: sent}
	lease, retention := p.options.Lease, p.options.Retention
	c.heldUntil.Store(int64(p.life.elapsed(sent.Add(surely(lease)))))
	// The call's deadline ends it, however late that is: each renewal keeps the
	// record for the whole retention. Settling may take a little longer.
	end, ok := ctx.Deadline()
	if !ok {
		end = sent.Add(retention)
	}
	c.giveUpAt = p.life.elapsed(end.Add(lease))
	c.mu.Lock()
	defer c.mu.Unlock()
	// A timer, not a goroutine: most calls end before it ever fires.
	c.timer = time.AfterFunc(lease/3, c.renew)
	return c
}

// surely is how much of a lease can be counted on: the store's clock may tick
// slightly faster than ours, and counts whole milliseconds.
func surely(lease time.Duration) time.Duration {
	return lease - max(lease/100, 2*time.Millisecond)
}

// Held reports whether the claim is surely still this process's: less than the
// lease has passed, by the monotonic clock, since the request for it was sent.
// Whoever is about to start an effect asks this first; a process that was
// stopped past its lease, or that another has succeeded, learns it here.
func (c *Claim) Held() bool {
	p, until := c.process, time.Duration(c.heldUntil.Load())
	return p.life.now() < until && (p.fence == nil || p.fence.covers(time.Now(), until-surely(p.options.Lease)))
}

// Epoch counts the claims of this call; 1 for the first.
func (c *Claim) Epoch() int64 { return c.record.Epoch }

// renew asks for more time, from its timer.
func (c *Claim) renew() {
	p := c.process
	if c.stopped() || !p.life.begin() {
		return
	}
	defer p.life.tasks.Done()
	lease := p.options.Lease
	if c.over() {
		c.abandon()
		return
	}
	ctx, cancel := context.WithTimeout(p.life.background, lease/3)
	defer cancel()
	sent := time.Now()
	var ok bool
	err := survive(func() (err error) {
		failpoint.Hit(failpoint.RenewalUnsent)
		ok, err = p.store.Renew(ctx, c.key, c.record.Owner, c.record.Epoch, lease)
		failpoint.Hit(failpoint.RenewalDurable)
		return err
	})
	p.courier.heard(err)
	switch {
	case IsCorrupt(err):
		// Nobody renews that, and nobody else gets it. Those who wait here are
		// answered by the end of the call.
		c.heldUntil.Store(0)
		c.stop()
	case err != nil:
		// Not heard is not refused: try again, sooner than usual.
		c.again(lease / 10)
	case !ok:
		c.refused(ctx)
	default:
		c.heldUntil.Store(int64(p.life.elapsed(sent.Add(surely(lease)))))
		c.again(lease / 3)
	}
}

// KeepUntil says that the call may last until an instant, whoever waits for it;
// without it that is the deadline of the context that the claim was asked for
// with. It is renewed for a lease longer, in which it settles, and not for ever.
func (c *Claim) KeepUntil(end time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveUpAt = c.process.life.elapsed(end.Add(c.process.options.Lease))
}

// over reports that the call has had all its time, and does not end.
func (c *Claim) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process.life.now() >= c.giveUpAt
}

func (c *Claim) again(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Reset(after)
	}
}

// refused deals with a renewal that the store has refused: nothing may be started
// any more. When somebody else has decided the call, it is theirs. A store that
// has forgotten it would give it to a duplicate: it is told that the call runs.
func (c *Claim) refused(ctx context.Context) {
	c.heldUntil.Store(0)
	options := &c.process.options
	var record Record
	var restored bool
	sent := time.Now()
	err := survive(func() (err error) {
		record, restored, err = c.process.store.Restore(ctx, Restoration{
			Key: c.key, Claim: c.record, Lease: options.Lease, Retention: options.Retention, EffectKey: c.effect,
		})
		return err
	})
	switch {
	case err != nil:
	case restored:
		c.forgotten = true
		c.process.courier.tellRestored(c.key, record)
		if record.State == Claimed {
			c.heldUntil.Store(int64(c.process.life.elapsed(sent.Add(surely(options.Lease)))))
		}
	case c.forgotten && record.State == Unknown && record.Owner == c.record.Owner && record.Epoch == c.record.Epoch:
		// As it was restored. Those who wait here are answered by its end.
	default:
		c.abandon()
		return
	}
	c.again(options.Lease / 3)
}

// abandon ends a claim that is no longer ours: nothing may be started under it,
// and duplicates have to ask the store. The call stays known as at work until it
// is settled.
func (c *Claim) abandon() {
	c.heldUntil.Store(0)
	c.stop()
	c.process.flights.lose(c.key, c.flight)
}

func (c *Claim) stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timer == nil
}

func (c *Claim) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// Settle ends the claim with what became of the call: State, Attempts, Result,
// Output, Spend, Appends and Frees of the settlement; the rest is filled in here. An Unknown call
// whose effect may repeat is recorded as NotRun: it may simply run again.
//
// A store that cannot be reached is asked again until ctx ends, one lease at
// the most: repeating a settlement is harmless. With a journal it is asked for
// 2 s at the most, for 250 ms when it is known to be down; then the settlement
// goes to the journal, which is not bounded by ctx but takes 3 s at the most,
// and the verdict is Journaled; likewise when it waits in memory, for which no
// store is given up sooner. A store that has forgotten the call is told again; Superseded means that somebody else has decided it. Whatever comes of
// it, the claim is no longer renewed afterwards, and duplicates that waited here
// go on. An error means that the settlement may or may not be recorded, but ErrUnkept
// that it is not, and that the claim is held as before.
func (c *Claim) Settle(ctx context.Context, s Settlement) (SettleVerdict, error) {
	s.Key, s.Owner, s.Epoch = c.key, c.record.Owner, c.record.Epoch
	s.Retention, s.Claim = c.process.options.Retention, &Origin{c.record, c.effect}
	if s.State == Unknown && c.record.Effect.Repeatable() {
		s.State = NotRun
	}
	var ended landing
	unkept := false
	defer func() { // also when the store panics
		if !unkept {
			c.stop()
			c.process.flights.land(c.key, c.flight, ended)
		}
	}()
	if err := s.Output.validate(); err != nil {
		// What became of the call matters more than the part of it that was cut.
		c.process.courier.log.Error("an output that no store takes is not kept", "call", s, "dropped_output_bytes", len(s.Output.Data), "error", err)
		s.Output = nil
	}
	if err := s.validateLoop(); err != nil {
		c.process.courier.log.Error("what no store takes is not kept of a call", "call", s, "error", err)
		s = s.alone()
	}
	verdict, err := c.settle(ctx, s)
	if unkept = s.Output != nil && errors.Is(err, ErrFull); unkept {
		c.process.courier.log.Warn("the store is full: an output is not kept", "call", s, "dropped_output_bytes", len(s.Output.Data))
		return 0, fmt.Errorf("%w: %w", ErrUnkept, err)
	}
	if err != nil {
		// No journal keeps what is only of use while the loop goes on.
		verdict, err = c.process.courier.keep(ctx, Late{Settlement: s.alone(), EndedAt: time.Now()}, err)
	} else {
		verdict = c.process.courier.tell(ctx, &s, verdict)
	}
	if err == nil && verdict != Superseded && s.State != NotRun {
		ended.admission = &Admission{Record: c.settled(s), Journaled: verdict == Journaled}
	}
	return verdict, err
}

func (c *Claim) settle(ctx context.Context, s Settlement) (SettleVerdict, error) {
	ctx, cancel := context.WithTimeout(ctx, c.process.courier.patience())
	defer cancel()
	for pause := settleFirst; ; pause = min(2*pause, settleMax) {
		failpoint.Hit(failpoint.SettlementUnsent)
		verdict, err := c.process.store.Settle(ctx, s)
		failpoint.Hit(failpoint.SettlementDurable)
		c.process.courier.heard(err)
		if err == nil || final(err) || s.Output != nil && errors.Is(err, ErrFull) {
			return verdict, err
		}
		if stop := c.process.life.wait(ctx, pause/2+rand.N(pause/2), nil); stop != nil {
			return 0, err
		}
	}
}

// settled is the record as the store now holds it, for the duplicates that
// waited here. Only its FinishedAt is this process's guess.
func (c *Claim) settled(s Settlement) Record {
	r, _, _ := c.record.Settle(s, c.record.StartedAt.Add(time.Since(c.sent)))
	return r
}
