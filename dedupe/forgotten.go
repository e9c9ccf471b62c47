package dedupe

import (
	"fmt"
	"time"
)

// Origin is the claim that a settlement ends, as it was made, for a store that has forgotten it.
type Origin struct {
	Record Record
	// EffectKey is that of the call's request: what the call has done does not depend
	// on who has been allowed to do it meanwhile.
	EffectKey EffectKey
}

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
	back := Restoration{Key: s.Key, Claim: c.Record, Lease: s.Retention, Retention: s.Retention, EffectKey: c.EffectKey}
	return back.Validate()
}
