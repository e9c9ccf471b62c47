package guard

import (
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Instant is a point of time in milliseconds since 1970, UTC.
type Instant int64

// At returns the instant of t.
func At(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time is the inverse of At.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)) }

// Call is what the guard has to know of a call before it is made.
type Call struct {
	// Tool is its name as the model wrote it. Names are compared by their first 128
	// bytes.
	Tool string
	// Same is what makes two calls the same: Cut of their fingerprint, over the
	// tool's name and the canonical arguments. Of a malformed call, which has no
	// canonical arguments, it is the Sum of the name and the arguments as they came.
	// 0 is like no other call.
	Same Hash
	// Words are those of the arguments of a call that only reads; 0 for all others.
	Words Words
	// ID is the Sum of the turn and the id. A call that is sent again under its id is
	// the same call, and not one more. 0 when there is none.
	ID Hash
	// Batch is something that the calls of one batch have in common, since whoever
	// made them had not seen the results of the others. 0 for a call on its own.
	Batch Hash
	// Start is when the request came. What ended later has not been seen by whoever
	// made it.
	Start Instant
	// Effect of the tool; without meaning for a tool that is unknown.
	Effect tool.Effect
	// Polling tools are meant to be repeated with the same arguments.
	Polling bool
}

// Kind says what came of a call.
type Kind uint8

const (
	// OK: it ran, and has a result; an empty one too, and a partial one.
	OK Kind = iota + 1
	// Failed: its answer is an error that the kinds below do not name. It may have been
	// sent, or turned away: a profile that forbids the tool.
	Failed
	// Invalid: its arguments break the schema, or are no JSON.
	Invalid
	// UnknownTool: there is no tool of that name.
	UnknownTool
	// Refused by the guard, after a look at the log.
	Refused
)

var kindNames = [...]string{OK: "ok", Failed: "failed", Invalid: "invalid", UnknownTool: "unknown_tool", Refused: "refused"}

// String returns ok, failed, invalid, unknown_tool or refused.
func (k Kind) String() string { return tool.Named("kind", kindNames[:], k) }

// malformed: the model could have known better without any result.
func (k Kind) malformed() bool { return k == Invalid || k == UnknownTool }

// Entry is what the log keeps of a call: nothing of its arguments and of its
// output but what a hash tells.
type Entry struct {
	Call

	Kind Kind
	// Outcome is Sum of the whole output, before it is cut, wrapped or given a
	// handle; or Failure of the error. Without meaning for a refusal.
	Outcome Hash
	// End is when it was answered; not before Start.
	End Instant
	// Empty: it is OK, and found nothing.
	Empty bool
	// Rule, Count and Refusals are those of the verdict by which it was refused.
	Rule     Rule
	Count    int
	Refusals int
}

// Refuse returns the entry of a call that was refused, at some time, by a verdict
// of Before.
func (c Call) Refuse(v Verdict, at Instant) Entry {
	return Entry{Call: c, Kind: Refused, End: at, Rule: v.Rule, Count: v.Count, Refusals: v.Refusals}
}

// seenBy reports whether whoever made the call c can have known how e ended.
func (e *Entry) seenBy(c *Call) bool {
	return e.End <= c.Start && (e.Batch == 0 || e.Batch != c.Batch)
}
