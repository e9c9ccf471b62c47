package dedupe

import (
	"bytes"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Admit applies a request to a record at an instant of the store's clock. It returns the record
// after it, the answer, and whether the record changed.
//
//	record                                  request          →
//	absent                                  anyone           Won, CLAIMED, epoch 1
//	any but CLOSED                          other content    Mismatch
//	CLAIMED                                 its owner        Won, same epoch, lease from now
//	CLAIMED, lease running                  another          InFlight
//	CLAIMED, lease out, non_idempotent      another          OutcomeUnknown, UNKNOWN
//	CLAIMED, lease out, effect may repeat   another          Won, CLAIMED, epoch+1
//	NOT_RUN                                 its owner        InFlight
//	NOT_RUN, sent as repeatable             non_idempotent   OutcomeUnknown, UNKNOWN
//	NOT_RUN                                 another          Won, CLAIMED, epoch+1
//	UNKNOWN                                 anyone           OutcomeUnknown
//	DONE                                    anyone           Replay
//	CLOSED                                  anyone           Replay, of the answer that it was closed with
//	HELD                                    its owner        AwaitsApproval
//	HELD, approved                          another          Won, CLAIMED, epoch+1
//	HELD                                    another, asking  AwaitsApproval
//	HELD, over, approved or not             another, asking  AwaitsApproval, HELD anew: of another owner
//	HELD                                    another, not so  Won, CLAIMED, epoch+1
//	HELD, sent as repeatable                non_idempotent   OutcomeUnknown, UNKNOWN
//
// A request that asks (Request.Hold) is AwaitsApproval, and makes the record HELD, where it would
// be Won otherwise: unless the call was approved, which stays so whatever becomes of the claim. A
// hold takes no epoch: nothing can have been sent under it.
//
// A request that only asks whether a person has to be asked (Request.HoldOnly) is MayRun, and leaves
// the record as it is, where it would be Won.
//
// To a later incarnation of its owner's instance (tenure.go) a lease is out.
func (r Record) Admit(req Request, now time.Time) (next Record, verdict Verdict, changed bool) {
	next, verdict, changed = r.admit(req, now)
	if req.HoldOnly && verdict == Won {
		return r, MayRun, false
	}
	return next, verdict, changed
}

func (r Record) admit(req Request, now time.Time) (next Record, verdict Verdict, changed bool) {
	if r.State == Absent {
		return r.begin(req, now)
	}
	if r.State == Closed { // of which only its conversation knows the content
		return r, Replay, false
	}
	if r.Tool != req.Tool || r.Fingerprint != req.Fingerprint {
		return r, Mismatch, false
	}
	switch r.State {
	case Done:
		return r, Replay, false
	case Unknown:
		return r, OutcomeUnknown, false
	case NotRun, Held:
		return r.again(req, now)
	case Claimed:
		return r.contest(req, now)
	case Absent, Closed: // answered above
	}
	panic(impossible(r.State))
}

// impossible says that a store has let a record through of which no answer would be true.
func impossible(s State) string { return "a record cannot be " + s.String() }

func (r Record) contest(req Request, now time.Time) (Record, Verdict, bool) {
	switch {
	case r.Owner == req.Owner:
		// It did not hear the answer, and has started nothing yet.
		r.LeaseUntil = now.Add(req.Lease)
		return r, Won, true
	case now.Before(r.LeaseUntil) && !succeeds(req.Owner, r.Owner):
		return r, InFlight, false
	case !r.Effect.Repeatable() || !req.Effect.Repeatable():
		// The tool may have been declared anew since: the stricter one decides.
		return r.lost(now), OutcomeUnknown, true
	default:
		if now.Before(r.LeaseUntil) {
			r.LeaseUntil = now
		}
		return r.Observed(now).begin(req, now)
	}
}

func (r Record) again(req Request, now time.Time) (Record, Verdict, bool) {
	if r.Owner == req.Owner {
		// An earlier copy of the request, late on its way: nobody would hold the claim.
		if r.State == Held {
			return r, AwaitsApproval, false
		}
		return r, InFlight, false
	}
	if r.Fate(req.Effect) == MayHaveRun {
		// The tool was declared anew since. NOT_RUN of a call that could be repeated says only
		// that it may run again: as what the tool is now, nobody knows. It counts as sent, so
		// that the owner of its last epoch cannot say that nothing was in any of them.
		r = r.lost(now)
		r.Effect, r.Attempts, r.Result = req.Effect, max(r.Attempts, 1), nil
		return r, OutcomeUnknown, true
	}
	return r.begin(req, now)
}

// begin answers a request for a call that nobody is at: with the claim, unless a person has to be
// asked first.
func (r Record) begin(req Request, now time.Time) (Record, Verdict, bool) {
	holds := r.holds(now)
	if r.State == Held && !holds {
		r.Approval = nil
	}
	switch ask := req.Hold; {
	case ask == nil || r.Approved():
		return r.claim(req, now), Won, true
	case holds:
		return r, AwaitsApproval, false
	case ask.Standing:
		return r.claim(req, now), Won, true
	default:
		return r.hold(req, now), AwaitsApproval, true
	}
}

// holds reports that a hold, or what was allowed of it, still counts.
func (r Record) holds(now time.Time) bool { return r.State == Held && now.Before(r.LeaseUntil) }

// hold is the record of a call of which a person is asked. What is known of attempts before stays.
func (r Record) hold(req Request, now time.Time) Record {
	next := req.record(Held, now, req.Hold.For)
	next.Epoch, next.FinishedAt, next.Attempts, next.Result = r.Epoch, r.FinishedAt, r.Attempts, req.Hold.Result
	if r.State != Absent {
		next.Effect = r.Effect
	}
	if r.Lost { // there is at least the attempt that was lost
		next.Attempts = max(r.Attempts, 1)
	}
	return next
}

func (r Record) claim(req Request, now time.Time) Record {
	next := req.record(Claimed, now, req.Lease)
	next.Epoch, next.Counter, next.Approval = r.Epoch+1, req.Draw.Counter, r.Approval
	return next
}

// record is that of a call which the request begins, with a lease or a hold from now.
func (r *Request) record(state State, now time.Time, lasts time.Duration) Record {
	return Record{
		State: state, Owner: r.Owner, Tool: r.Tool, Effect: r.Effect, Fingerprint: r.Fingerprint,
		StartedAt: now, LeaseUntil: now.Add(lasts), Details: r.Details,
	}
}

// lost returns a claimed record as Unknown. Owner and epoch stay, so that a late owner can still
// say what became of the call.
func (r Record) lost(now time.Time) Record {
	r.State, r.FinishedAt, r.LeaseUntil = Unknown, now, time.Time{}
	return r
}

// Settle applies a settlement to a record at an instant of the store's clock. changed is false
// for a settlement that the record holds already.
//
//	CLAIMED → DONE, NOT_RUN       the owner of this epoch, lease out or not
//	CLAIMED → UNKNOWN             the owner of this epoch, non_idempotent only
//	CLAIMED → HELD                the owner of this epoch, who has sent nothing and asks a person
//	HELD → HELD, approved         a person, by the owner and epoch that were looked at; what is
//	                              allowed counts for as long as the hold did, from now
//	HELD → DONE                   a person who denies it, likewise, approved or not
//	                              both only until the hold is over
//	UNKNOWN, NOT_RUN → DONE       the late owner of this epoch, who knows that it ran
//	UNKNOWN → NOT_RUN             the owner of this epoch, who has not heard of its claim
//	                              (epoch 0), when nothing can have been sent before: in the
//	                              first epoch, and in any of a non_idempotent call
//	UNKNOWN → DONE, NOT_RUN       a resolution by the owner and epoch it has seen; CLAIMED with
//	                              the lease out, or of an incarnation before the one that
//	                              resolves, non_idempotent, is UNKNOWN to it
//	the state it has already      the same owner and epoch; DONE only with the same result;
//	                              an UNKNOWN without a result takes the owner's
//
// Beyond that, one that carries its claim, as HELD it counts as NOT_RUN then: it is asked again. A
// store that has forgotten a call would let it run a second time; so would one that knows it from
// somebody who has not run it. NOT_RUN is as observed, and HELD counts as it.
//
//	record                        settlement      →
//	absent                        NOT_RUN         as it is: it may run again, as before
//	absent                        DONE, UNKNOWN   that, same owner and epoch
//	NOT_RUN, of another           DONE            DONE, epoch+1: who knows that it ran knows better
//	NOT_RUN, of another, of an    UNKNOWN         UNKNOWN, epoch+1; at a later epoch it may have
//	epoch not after the claim's                   been resolved since
//	UNKNOWN, of the claim         NOT_RUN         NOT_RUN: somebody saw the lease run out; not when
//	                                              its tool may no longer repeat, as it could then
//	of its owner, a later epoch   any             as above: it was written so before
//
// Everything else is Superseded. SettledAnew says that the store had forgotten the call: claims
// that came later count on from one that it still knows.
func (r Record) Settle(s Settlement, now time.Time) (next Record, verdict SettleVerdict, changed bool) {
	next, verdict, changed = r.settle(s, now)
	if verdict == Superseded && s.Claim != nil {
		return r.settleLate(s.unheld(), now)
	}
	return next, verdict, changed
}

func (r Record) settle(s Settlement, now time.Time) (next Record, verdict SettleVerdict, changed bool) {
	if r.State == Absent || !s.owns(r) {
		return r, Superseded, false
	}
	if r.State == Held && s.State == Held && s.Resolves {
		return r.approve(s, now)
	}
	if r.State == s.State {
		if s.State == Done && !bytes.Equal(r.Result, s.Result) {
			return r, Superseded, false
		}
		if !r.lacksWords(s) {
			return r, Settled, false
		}
	} else if !r.mayBecome(s, now) {
		return r, Superseded, false
	}
	if r.State == Held { // a person denies it: it counts nowhere
		r.Counter = ""
	}
	r = s.ends(r, now)
	if s.State == Held {
		r.StartedAt, r.FinishedAt, r.LeaseUntil, r.Approval = now, time.Time{}, now.Add(s.HoldFor), nil
	}
	return r, Settled, true
}

func (s *Settlement) ends(r Record, now time.Time) Record {
	r.State, r.FinishedAt, r.LeaseUntil = s.State, now, time.Time{}
	r.Attempts, r.Result = s.Attempts, s.Result
	if s.Details != nil {
		r.Details = s.Details
	}
	return r
}

// approve is what a person makes of a hold who allows the call.
func (r Record) approve(s Settlement, now time.Time) (next Record, verdict SettleVerdict, changed bool) {
	switch {
	case r.Approved() && bytes.Equal(r.Approval, s.Approval):
		return r, Settled, false
	case r.Approved() || !r.holds(now):
		return r, Superseded, false
	}
	r.Approval, r.LeaseUntil = s.Approval, now.Add(r.LeaseUntil.Sub(r.StartedAt))
	return r, Settled, true
}

// lacksWords reports that an observer made the record Unknown before its owner did, whose
// settlement says what to answer.
func (r Record) lacksWords(s Settlement) bool {
	return s.State == Unknown && len(r.Result) == 0 && len(s.Result) > 0
}

func (s *Settlement) owns(r Record) bool {
	return r.Owner == s.Owner && (r.Epoch == s.Epoch || s.Epoch == 0 && s.State == NotRun)
}

func (r Record) mayBecome(s Settlement, now time.Time) bool {
	if s.Resolves {
		if r.State == Claimed && succeeds(s.By, r.Owner) {
			r.LeaseUntil = now
		}
		seen := r.Observed(now).State
		return s.State == Done && (seen == Unknown || seen == Held) || s.State == NotRun && seen == Unknown
	}
	switch r.State {
	case Claimed:
		return s.State == Done || s.State == NotRun || s.State == Held || s.State == Unknown && r.Effect == tool.NonIdempotent
	case Unknown:
		return s.State == Done || s.State == NotRun && s.Epoch == 0 && r.unsentBefore()
	case NotRun:
		return s.State == Done
	case Absent, Done, Closed, Held:
		return false
	}
	panic(impossible(r.State))
}

// unsentBefore reports that the call could be claimed last only because nothing had been sent.
func (r Record) unsentBefore() bool {
	return r.Attempts == 0 && (r.Epoch == 1 || !r.Effect.Repeatable())
}

// settleLate applies a settlement with its claim to a record that is no longer the claim's.
func (r Record) settleLate(s Settlement, now time.Time) (next Record, verdict SettleVerdict, changed bool) {
	seen, known := r.Observed(now), r.Epoch > s.Epoch
	switch claim := &s.Claim.Record; {
	case seen.State == Absent && s.State == NotRun:
		return r, Settled, false
	case seen.State != Absent && seen.Owner == s.Owner:
		s.Resolves = s.State == NotRun && seen.Epoch == s.Epoch && seen.Effect == claim.Effect
		s.Epoch = seen.Epoch
		return r.settle(s, now)
	case seen.State == Absent,
		(seen.State == NotRun || seen.State == Held) && seen.Tool == claim.Tool && seen.Fingerprint == claim.Fingerprint &&
			(s.State == Done || s.State == Unknown && !known):
		next = s.ends(*claim, now)
		next.Epoch = max(seen.Epoch+1, s.Epoch)
		if known || r.State == Held && r.Epoch == s.Epoch { // a hold takes no epoch
			return next, Settled, true
		}
		return next, SettledAnew, true
	default:
		return r, Superseded, false
	}
}

// Renew applies a renewal to a record at an instant of the store's clock. As long as no
// observer has moved the record, even a lease that has run out is taken up again.
//
//	record                  effect           →
//	CLAIMED, of the claim   any              lease from now
//	absent                  may repeat       CLAIMED, same owner and epoch, lease from now
//	absent                  non_idempotent   UNKNOWN, same owner and epoch
//	everything else         any              as it is
//
// Nobody can know whether another has run a forgotten call meanwhile and was forgotten too.
// So the owner of what must not be repeated starts nothing any more, but it can still say
// what became of the call. The verdicts are as those of a settlement.
func (r Record) Renew(renewal *Renewal, now time.Time) (next Record, verdict SettleVerdict) {
	claim := &renewal.Claim.Record
	switch {
	case r.State == Claimed && r.Owner == claim.Owner && r.Epoch == claim.Epoch:
		next, verdict = r, Settled
	case r.State == Absent:
		next, verdict = *claim, SettledAnew
		next.State, next.FinishedAt, next.Attempts, next.Result = Claimed, time.Time{}, 0, nil
		if !next.Effect.Repeatable() {
			return next.lost(now), verdict
		}
	default:
		return r, Superseded
	}
	next.LeaseUntil = now.Add(renewal.Lease)
	return next, verdict
}

// Observed returns the record as somebody who only looks should be told of it: a claim whose
// lease has run out is Unknown, or NotRun when its effect may repeat, for the next request would
// get it. A hold that is over is NotRun: nobody is asked any more, until the call is sent again.
func (r Record) Observed(now time.Time) Record {
	if r.State == Held && !r.holds(now) {
		r.State, r.FinishedAt, r.LeaseUntil, r.Lapsed = NotRun, r.LeaseUntil, time.Time{}, true
		r.Approval, r.Result = nil, nil
		return r
	}
	if r.State != Claimed || now.Before(r.LeaseUntil) {
		return r
	}
	expired := r.LeaseUntil
	r = r.lost(expired)
	if r.Effect.Repeatable() {
		r.State, r.Lost = NotRun, true
	}
	return r
}
