package guard

import "github.com/sidecall/sidecall/internal/tool"

// Rule is what a verdict goes by.
type Rule uint8

// The rules; the package comment has the table.
const (
	// SameCall: the same call, or the same question in other words, with the same
	// outcome each time.
	SameCall Rule = iota + 1
	// Cycle: two or three calls in turn, with the same outcomes each time.
	Cycle
	// SameError: the same error of a tool, whatever the arguments are.
	SameError
	// SameResult: a read-only tool finds nothing, whatever the arguments are.
	SameResult
	// Malformed: calls that are invalid, or of a tool that there is not.
	Malformed
	// Duplicate: the same call several times in one batch.
	Duplicate
)

var ruleNames = [...]string{
	SameCall: "same_call", Cycle: "cycle", SameError: "same_error",
	SameResult: "same_result", Malformed: "malformed", Duplicate: "duplicate",
}

// String returns same_call, cycle, same_error, same_result, malformed or duplicate.
func (r Rule) String() string { return tool.Named("rule", ruleNames[:], r) }

// Level is how far a verdict goes. Each includes those before it.
type Level uint8

const (
	// Pass: nothing to say.
	Pass Level = iota
	// Nudge: the response says that this is a repetition.
	Nudge
	// Refuse: LOOP_DETECTED, and nothing is sent.
	Refuse
	// Escalate: the response says that a person has to be asked.
	Escalate
	// Stop: the response tells the program to end the loop.
	Stop
)

var levelNames = [...]string{Pass: "pass", Nudge: "nudge", Refuse: "refuse", Escalate: "require_escalation", Stop: "stop"}

// String returns pass, nudge, refuse, require_escalation or stop.
func (l Level) String() string { return tool.Named("level", levelNames[:], l) }

// Refused reports whether the call must not be sent.
func (l Level) Refused() bool { return l >= Refuse }

// Verdict is what the guard has to say of a call, and the facts for whoever finds
// words for it. The zero value is nothing.
type Verdict struct {
	Level Level
	Rule  Rule
	// Tool is the one that was called.
	Tool string
	// Count is how often it has been so, this call included: calls, those that were
	// refused among them; for Cycle rounds.
	Count int
	// Limit is the Count from which on it is refused; 0 when it never is.
	Limit int
	// Since is when the first of the calls began that count.
	Since Instant
	// Refusals is how many times it has been refused, this one included; 0 below
	// Refuse.
	Refusals int
	// Round names the tools of one round of a Cycle, in their order, the present one
	// last. nil for every other rule.
	Round []string
	// First is the place in the batch of the call that a Duplicate repeats.
	First int
}

// graver is the one of two verdicts that says more. Of two that say as much it is
// the first.
func graver(a, b Verdict) Verdict {
	if b.Level > a.Level {
		return b
	}
	return a
}
