package dedupe

import (
	"cmp"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Request asks for the right to run a call.
type Request struct {
	Key         tool.CallID
	Tool        string
	Effect      tool.Effect
	Fingerprint [32]byte
	// Owner is unique per call of this process. The same Owner asking again gets its own claim
	// back: a lost reply neither loses nor doubles it. Once it has settled, it never wins again.
	Owner string
	// Lease is how long the claim holds without renewal, at least 1 ms; Retention how long
	// the record is remembered after its last change, at least Lease.
	Lease, Retention time.Duration
	Draw             Draw
	Logs             []string  // that are returned with a claim, or when it MayRun; at most MaxLogs
	EffectKey        EffectKey // what the call does, which no other call may do or have done
	// After are the calls with which the effect began that this one goes on with: they are done, and
	// are not in its way. They hold the effect beside it. At most MaxAfter.
	After    []tool.CallID
	Hold     *Hold  // a person is to be asked first; nil where nobody need be
	HoldOnly bool   // it is only asked whether a person has to be: where nobody has to, nothing is claimed
	Details  []byte // that its record is to have; nil for none
	Terms    []Term // that it can be found by; at most MaxTerms
	Receipt  bool   // its settlement leaves a receipt
}

// Hold says that a call waits for a person's word before it is claimed.
type Hold struct {
	For    time.Duration // how long the word is waited for, and counts once it is given
	Result []byte        // what whoever sends the call is told meanwhile
	// Standing only keeps a hold that there is: whether there is to be one is known only after the
	// claim, and then the claim is settled as Held.
	Standing bool
}

// Verdict is the answer to a Request.
type Verdict uint8

const (
	Won            Verdict = iota + 1 // the caller holds the claim and must settle it
	Replay                            // the call is Done or Closed, with Record.Result
	InFlight                          // another owner holds an unexpired claim
	OutcomeUnknown                    // the call is Unknown
	Mismatch                          // the id was used with another tool or other arguments
	AwaitsApproval                    // the call is Held
	MayRun                            // it would be Won, but that it is only asked: Request.HoldOnly

	// These would be Won, but for what stands in the way. Nothing was claimed or counted.

	Exceeded        // a ceiling of the Draw
	DuplicateEffect // another call, which is Done, has had the effect
	EffectInFlight  // another is having it
	EffectUnknown   // another may have had it
)

var verdictNames = []string{
	Won: "won", Replay: "replay", InFlight: "in_flight", OutcomeUnknown: "unknown", Mismatch: "mismatch", AwaitsApproval: "awaits_approval", MayRun: "may_run", Exceeded: "exceeded",
	DuplicateEffect: "duplicate_effect", EffectInFlight: "effect_in_flight", EffectUnknown: "effect_unknown",
}

// Waits reports the verdicts that another call's end will change.
func (v Verdict) Waits() bool { return v == InFlight || v == EffectInFlight }

// String names it as a metric does.
func (v Verdict) String() string { return named("verdict", verdictNames, v) }

// Admission is the outcome of Admit.
type Admission struct {
	Verdict Verdict
	// Record is that after the request; empty when Exceeded. When it MayRun it is as observed. When
	// an effect stands in the way it is Earlier's as the store has it, which may be a claim whose
	// lease is out.
	Record    Record
	Earlier   tool.CallID // whose effect stands in the way; else empty
	Journaled bool        // the record waits in this process's journal; no store says so
	Tally     Tally       // that of the Draw, after the request
	Ceiling   Ceiling     // which one was Exceeded
	Logs      Logs        // when Won, or when it MayRun
}

// Validate reports what a store cannot accept; the error wraps ErrInvalid.
func (r *Request) Validate() error {
	return cmp.Or(
		validKey(&r.Key),
		between("bytes of an owner", len(r.Owner), 1, MaxNameBytes),
		between("bytes of the name of a tool", len(r.Tool), 0, MaxNameBytes),
		between("a lease", r.Lease, time.Millisecond, longest),
		between("a retention, which an open claim needs", r.Retention, r.Lease, longest),
		holds(&r.Key, r.Draw != (Draw{}) || len(r.Logs) > 0),
		r.Draw.validate(),
		validateLogs(r.Logs),
		between("bytes of details", len(r.Details), 0, MaxDetailsBytes),
		between("terms to be found by", len(r.Terms), 0, MaxTerms),
		r.EffectKey.validate(r.Key, r.Retention),
		between("calls that one goes on with", len(r.After), 0, MaxAfter),
		r.Hold.validate(r.Retention))
}

func (h *Hold) validate(retention time.Duration) error {
	if h == nil {
		return nil
	}
	return cmp.Or(
		between("how long a call is held", h.For, time.Millisecond, retention),
		between("bytes of what is told of a held call", len(h.Result), 0, MaxResultBytes))
}
