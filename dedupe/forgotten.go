package dedupe

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// Origin is a claim as it was made, for a store that has forgotten it: after a failover, say,
// or when its clock has jumped past the retention.
type Origin struct {
	Record Record
	// EffectKey is that of the call's request. The call holds the effect again, whoever has
	// been allowed to have it meanwhile.
	EffectKey EffectKey
}

// validate reports a claim that no store can have made.
func (o *Origin) validate(key Key, lease, retention time.Duration) error {
	asked := Request{
		Key: key, Tool: o.Record.Tool, Owner: o.Record.Owner, Lease: lease, Retention: retention,
		Draw: Draw{Counter: o.Record.Counter}, EffectKey: o.EffectKey,
	}
	return cmp.Or(between("the epoch of a claim", o.Record.Epoch, 1, math.MaxInt64), asked.Validate())
}

// Renewal asks for more time for a claim. See Record.Renew.
type Renewal struct {
	Key   Key
	Claim Origin
	// Lease is how long the claim holds from now, Retention how long its record is remembered
	// if it is restored.
	Lease, Retention time.Duration
}

// Validate reports what a store cannot accept; the error wraps ErrInvalid.
func (r *Renewal) Validate() error { return r.Claim.validate(r.Key, r.Lease, r.Retention) }

// SettleLate applies a settlement as Settle does, and one that carries its claim also to
// a record that is no longer the claim's. A store that has forgotten a call would let it
// run a second time; so would one that knows it from somebody who has not run it.
//
//	record                          settlement      →
//	absent                          NOT_RUN         as it is: it may run again, as before
//	absent                          DONE, UNKNOWN   that, same owner and epoch
//	NOT_RUN, of another             DONE            DONE, epoch+1: who knows that it ran
//	                                                knows better than all who came later
//	NOT_RUN, of another, of an      UNKNOWN         UNKNOWN, epoch+1; at a later epoch it
//	epoch not after the claim's                     may have been resolved since
//	UNKNOWN, of the claim           NOT_RUN         NOT_RUN: somebody saw the lease run
//	                                                out and could not know; not when it is
//	                                                UNKNOWN as a tool that must not repeat,
//	                                                of which the claim's is no proof
//	of its owner, a later epoch     any             as Settle: it was written so before
//	everything else                                 Superseded
//
// NOT_RUN is as observed. The verdict is SettledAnew when the store had forgotten the
// call: claims that came later count on from one that it still knows.
func (r Record) SettleLate(s Settlement, now time.Time) (next Record, verdict SettleVerdict, changed bool) {
	if next, verdict, changed = r.Settle(s, now); verdict == Settled || s.Claim == nil {
		return next, verdict, changed
	}
	seen, forgotten := r.Observed(now), r.Epoch <= s.Epoch
	switch claim := &s.Claim.Record; {
	case seen.State == Absent && s.State == NotRun:
		return r, Settled, false
	case seen.State != Absent && seen.Owner == s.Owner:
		s.Resolves = s.State == NotRun && seen.Epoch == s.Epoch && seen.Effect == claim.Effect
		s.Epoch = seen.Epoch
		return r.Settle(s, now)
	case seen.State == Absent,
		seen.State == NotRun && seen.Tool == claim.Tool && seen.Fingerprint == claim.Fingerprint &&
			(s.State == Done || s.State == Unknown && forgotten):
		next = *claim
		next.State, next.Epoch, next.FinishedAt, next.LeaseUntil = s.State, max(seen.Epoch+1, s.Epoch), now, time.Time{}
		next.Attempts, next.Result = s.Attempts, s.Result
		if forgotten {
			return next, SettledAnew, true
		}
		return next, Settled, true
	default:
		return r, Superseded, false
	}
}

// validateClaim reports a claim that no store can have made of this settlement.
func (s *Settlement) validateClaim() error {
	c := s.Claim
	if c == nil {
		return nil
	}
	if c.Record.Owner != s.Owner || c.Record.Epoch != s.Epoch {
		return fmt.Errorf("%w: the settlement of another's claim", ErrInvalid)
	}
	if s.State == Unknown && c.Record.Effect.Repeatable() {
		return fmt.Errorf("%w: nobody knows of what may be repeated", ErrInvalid)
	}
	return c.validate(s.Key, s.Retention, s.Retention)
}
