package dedupe

import (
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// State is the state of a record.
type State uint8

const (
	Absent  State = iota // there is no record
	Claimed              // an owner is running the call, under a lease
	Done                 // it has a final result
	NotRun               // it had no effect, or the tool may be repeated; it may be claimed again
	Unknown              // it may or may not have run
	Closed               // its conversation has answered it, and it does not run any more
	Held                 // a person is asked first, or has allowed it: it is run when it is sent again then
)

var stateNames = []string{Absent: "absent", Claimed: "claimed", Done: "done", NotRun: "not_run", Unknown: "unknown", Closed: "closed", Held: "held"}

// String returns absent, claimed, done, not_run, unknown, closed or held.
func (s State) String() string { return named("state", stateNames, s) }

// Open reports that a call, as Observed, waits for a person: to find out what became of it, or to
// allow it.
func (s State) Open() bool { return s == Unknown || s == Held }

// Undecided reports that a call is Open, or at work: whoever has succeeded its owner knows better.
func (s State) Undecided() bool { return s.Open() || s == Claimed }

// Refused reports whether the refusal of a call stands: nobody is at it.
func (s State) Refused() bool { return s == Absent || s == NotRun || s == Held }

// Record is the record of a call.
type Record struct {
	State       State
	Epoch       int64  // counts claims; the first is 1, and 0 is that of a call that was held and never claimed
	Owner       string // the token of the claim; of a Held call that of who was told so last, which names the hold
	Tool        string
	Effect      tool.Effect
	Fingerprint [32]byte
	StartedAt   time.Time // of the current epoch's claim, or of the hold; store's clock
	FinishedAt  time.Time // zero while Claimed; of a Held call that of its attempts before
	LeaseUntil  time.Time // store's clock; how long a hold counts, and then what was allowed; zero once settled
	Attempts    int
	Counter     string // of the tally in which the claim of this epoch counts; empty for none
	Details     []byte // of its claim, for people; at most MaxDetailsBytes. No rule reads them
	Approval    []byte // who has allowed it, and why; nil when nobody has. That it is there is all that a rule reads
	Result      []byte // as it was settled, or what who sends a Held call is told; nil when an observer moved the record
	Lost        bool   // what Observed says of a claim whose lease is out; never stored
	Lapsed      bool   // what Observed says of a hold that is over; never stored
}

// Approved reports that a person has allowed the call: it is not asked for again under its id.
func (r Record) Approved() bool { return len(r.Approval) > 0 }

// MayHaveRun reports that attempts at a call which is NotRun, Held or Closed may have had its effect:
// only what must not be repeated is NotRun by proof.
func (r Record) MayHaveRun() bool {
	return r.Effect.Repeatable() && (r.Attempts > 0 || r.Epoch > 1 || r.Lost)
}

// Fate is what is known of a call, in the same words for all who tell of one.
type Fate uint8

const (
	NeverRan   Fate = iota // nothing has had an effect under its id
	Running                // an owner is at it
	Ran                    // it has a final result
	MayHaveRun             // nobody knows, and it must not be repeated
	Repeatable             // it may have run, and sent again under its id it is repeated safely
	Answered               // its conversation has answered it, and it does not run any more
)

// Fate says what is known of the call of a record as observed. The stricter of what its tool is
// declared as now and what it was when it ran decides.
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
	case NotRun, Held:
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
