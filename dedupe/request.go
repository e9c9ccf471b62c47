package dedupe

import (
	"cmp"
	"time"

	"github.com/sidecall/sidecall/tool"
)

// Request asks for the right to run a call.
type Request struct {
	Key         Key
	Tool        string
	Effect      tool.Effect
	Fingerprint [32]byte
	// Owner is unique per call of this process. The same Owner asking again gets its own claim
	// back: a lost reply neither loses nor doubles it. Once it has settled, it never wins again.
	Owner string
	// Lease is how long the claim holds without renewal, at least 1 ms; Retention how long
	// the record is remembered after its last change, at least Lease.
	Lease, Retention time.Duration
	// Draw counts the claim in a tally of its conversation, within ceilings.
	Draw Draw
	// Logs name the logs of its conversation that are returned with a claim; at most MaxLogs.
	Logs []string
	// EffectKey is what the call does: it is not claimed while another call may have done it,
	// or does it now.
	EffectKey EffectKey
}

// Verdict is the answer to a Request.
type Verdict uint8

const (
	// Won: the caller holds the claim and must settle it.
	Won Verdict = iota + 1
	// Replay: the call is Done; Record.Result is its result.
	Replay
	// InFlight: another owner holds an unexpired claim.
	InFlight
	// OutcomeUnknown: the call is Unknown.
	OutcomeUnknown
	// Mismatch: the id was used with another tool or other arguments; the record is unchanged.
	Mismatch
	// Exceeded: the request would be Won, but a ceiling of its Draw stands in the way. As with
	// those after it, nothing was claimed and nothing counted.
	Exceeded
	// DuplicateEffect: the request would be Won, but another call, which is Done, has had its
	// effect. EffectInFlight: another is having it; EffectUnknown: another may have had it.
	DuplicateEffect
	EffectInFlight
	EffectUnknown
)

var verdictNames = []string{
	Won: "won", Replay: "replay", InFlight: "in_flight", OutcomeUnknown: "unknown", Mismatch: "mismatch", Exceeded: "exceeded",
	DuplicateEffect: "duplicate_effect", EffectInFlight: "effect_in_flight", EffectUnknown: "effect_unknown",
}

// Waits reports the verdicts that another call's end will change.
func (v Verdict) Waits() bool { return v == InFlight || v == EffectInFlight }

// String names it as a metric does.
func (v Verdict) String() string { return named("verdict", verdictNames, v) }

// Admission is the outcome of Admit.
type Admission struct {
	Verdict Verdict
	// Record is that after the request; empty when Exceeded. When an effect stands in the way
	// it is Earlier's as the store has it, which may be a claim whose lease is out.
	Record Record
	// Earlier is the call whose effect stands in the way; else empty.
	Earlier Key
	// Journaled: the record waits in this process's journal. No store says so.
	Journaled bool
	// Tally is that of the request's Draw, after the request; Ceiling which one was Exceeded.
	Tally   Tally
	Ceiling Ceiling
	// Logs are what Request.Logs asks for, when Won.
	Logs Logs
}

// Validate reports what a store cannot accept; the error wraps ErrInvalid.
func (r *Request) Validate() error {
	return cmp.Or(
		r.Key.validate(),
		between("bytes of an owner", len(r.Owner), 1, MaxNameBytes),
		between("bytes of the name of a tool", len(r.Tool), 0, MaxNameBytes),
		between("a lease", r.Lease, time.Millisecond, longest),
		between("a retention, which an open claim needs", r.Retention, r.Lease, longest),
		r.Key.holds(r.Draw != (Draw{}) || len(r.Logs) > 0),
		r.Draw.validate(),
		validateLogs(r.Logs),
		r.EffectKey.validate(r.Key, r.Retention))
}
