package dedupe

import (
	"time"

	"github.com/sidecall/sidecall/tool"
)

// State is the state of a record.
type State uint8

const (
	// Absent: there is no record.
	Absent State = iota
	// Claimed: an owner is running the call, under a lease.
	Claimed
	// Done: it has a final result. No way leads out.
	Done
	// NotRun: it had no effect, or the tool may be repeated and nobody knows;
	// anyone with the same fingerprint may claim it again.
	NotRun
	// Unknown: it may or may not have run.
	Unknown
	// Closed: its conversation has answered it instead. It does not run any more; no
	// way leads out.
	Closed
)

var stateNames = []string{Absent: "absent", Claimed: "claimed", Done: "done", NotRun: "not_run", Unknown: "unknown", Closed: "closed"}

// String returns absent, claimed, done, not_run, unknown or closed.
func (s State) String() string { return named("state", stateNames, s) }

// Record is the record of a call.
type Record struct {
	State State
	// Epoch counts claims; the first is 1.
	Epoch int64
	// Owner is the token of the claim.
	Owner       string
	Tool        string
	Effect      tool.Effect
	Fingerprint [32]byte
	StartedAt   time.Time // of the current epoch's claim, store's clock
	FinishedAt  time.Time // zero while Claimed
	LeaseUntil  time.Time // store's clock; zero once settled
	Attempts    int
	// Counter names the tally in which the claim of this epoch counts, so that whoever finds
	// out that the call did not run can give it back; empty for none.
	Counter string
	// Result is the response as it was settled; nil when an observer moved the record.
	Result []byte
	// Lost: what Observed says of a claim whose lease is out. It is never stored.
	Lost bool
}

// MayHaveRun reports that attempts at a call which is free to be claimed again, or was
// closed, may have had its effect: only what must not be repeated is NotRun by proof.
func (r Record) MayHaveRun() bool {
	return r.Effect.Repeatable() && (r.Attempts > 0 || r.Epoch > 1 || r.Lost)
}

// Fate is what is known of a call, in the same words for all who tell of one.
type Fate uint8

const (
	// NeverRan: nothing has had an effect under its id.
	NeverRan Fate = iota
	// Running: an owner is at it.
	Running
	// Ran: it has a final result.
	Ran
	// MayHaveRun: nobody knows, and it must not be repeated.
	MayHaveRun
	// Repeatable: it may have run, and sent again under its id it is repeated safely.
	Repeatable
	// Answered: its conversation has answered it, and it does not run any more.
	Answered
)

// Fate says what is known of the call of a record, as it was observed, by what its tool
// is declared as now: the stricter of that and what it was when it ran decides.
func (r Record) Fate(declared tool.Effect) Fate {
	switch r.State {
	case Absent:
		return NeverRan
	case Claimed:
		return Running
	case Done:
		return Ran
	case Unknown:
		return MayHaveRun
	case Closed:
		return Answered
	case NotRun:
		switch {
		case !r.MayHaveRun():
			return NeverRan
		case declared.Repeatable():
			return Repeatable
		}
		return MayHaveRun
	}
	panic(impossible(r.State))
}
