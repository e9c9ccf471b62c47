package dedupe

import (
	"fmt"
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
)

var stateNames = [...]string{
	Absent:  "absent",
	Claimed: "claimed",
	Done:    "done",
	NotRun:  "not_run",
	Unknown: "unknown",
}

// String returns absent, claimed, done, not_run or unknown.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Record is the record of a call.
type Record struct {
	State State
	// Epoch counts claims; the first is 1.
	Epoch int64
	// Owner is the token of the claim, unique per claim attempt of a process.
	Owner       string
	Tool        string
	Effect      tool.Effect
	Fingerprint [32]byte
	StartedAt   time.Time // of the current epoch's claim, store's clock
	FinishedAt  time.Time // zero while Claimed
	LeaseUntil  time.Time // store's clock; zero once settled
	Attempts    int
	// Charges are what the claim of this epoch was charged. Refund says when they
	// are given back.
	Charges []Charge
	// Result is the response as it was settled, opaque here; nil when an
	// observer, not the owner, moved the record.
	Result []byte
}
