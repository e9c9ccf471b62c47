// Package rules has what a prompt must not do, and what a model is told of what it has
// done: each is a Rule, which knows no store and no other rule, and what time it is as it is
// told. A rule of all calls is a Maker; to add one is to add it to the list of package call.
package rules

import (
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Rule is a rule as one call meets it. Its methods are called in the order in which they
// stand here, Ask, Hear and what follows perhaps a second time, by one goroutine. Each may
// change what the one before it has been told of.
type Rule interface {
	// Check refuses a call by what it is alone; nil lets it go on.
	Check(now *Now) *Refusal
	// Ask says what the rule wants to know of the prompt, in the step that asks for the
	// right to make the call. When Now has an answer that is a refusal, for which the prompt
	// is looked at only: it says then what that leaves as well.
	Ask(now *Now, ask *Ask)
	// Hear is told what came back. It refuses a call that was about to be made, or one
	// that is refused anyway for a better reason; nil lets it go on.
	Hear(now *Now, heard *Heard) *Refusal
	// End is told how the call has ended, and adds to its answer.
	End(now *Now)
	// Leave says what a call leaves behind whose response has been made, and adds to that
	// what stands beside the answer.
	Leave(now *Now, res *result.Response, leaves *Leaves)
	// Kept is told whether what the rule has left, with its question or at the end, is kept.
	Kept(kept bool)
}

// Maker makes the rule of one call; nil where it has nothing to do with it.
type Maker func(*Call) Rule

// Idle is what a rule embeds that has nothing to say at some of the moments.
type Idle struct{}

// Check implements Rule.
func (Idle) Check(*Now) *Refusal { return nil }

// Ask implements Rule.
func (Idle) Ask(*Now, *Ask) {}

// Hear implements Rule.
func (Idle) Hear(*Now, *Heard) *Refusal { return nil }

// End implements Rule.
func (Idle) End(*Now) {}

// Leave implements Rule.
func (Idle) Leave(*Now, *result.Response, *Leaves) {}

// Kept implements Rule.
func (Idle) Kept(bool) {}

// Call is what is known of a call from the start.
type Call struct {
	tool.Use

	// Prompt may be empty: the conversation is the prompt then.
	Prompt string
	// Route is nil when there is no such tool.
	Route    *catalog.Route
	Snapshot *catalog.Snapshot
	// Profile is the call's; UnknownProfile says that it has named one that there is not, and
	// this is the one of calls that name none.
	Profile        catalog.Profile
	UnknownProfile bool
	Start          time.Time
	// TokensUsed are the tokens that the loop has used in this prompt; 0 says nothing.
	TokensUsed int64
	Batch      Batch
}

// Batch is what a call has to do with others that the model made in the same message.
type Batch struct {
	// Message is what they have in common that were sent together; 0 for a call on its own.
	Message guard.Hash
	// Name is that of a batch in which they were sent together; empty for a call on its own.
	Name string
	// Beside is what they say of the call.
	Beside guard.Verdict
}

// Now is how far a call has come.
type Now struct {
	Arguments
	Attempts
	Moment

	// Allowed: somebody has decided that it is to have its effect once more.
	Allowed bool
	// Faultless: the model can do nothing about what is wrong with the call.
	Faultless bool
}

// Arguments are those of a call, as far as they are known.
type Arguments struct {
	// Args have what they refer to, and Written are as the model knows them; nil while they
	// cannot be read. Print is the fingerprint of the tool with them, once they are checked;
	// Checked says so. Refers: some refer to kept outputs; Borrowed: and have come out of them.
	Args, Written    map[string]any
	Print            [32]byte
	Checked          bool
	Refers, Borrowed bool
}

// Attempts are what became of the attempts at a call.
type Attempts struct {
	// Claimed: it has the right to be made, or had.
	Claimed bool
	// Sent is how often it was sent.
	Sent int
	// MayHaveRun: it may have had an effect that must not be repeated under another id;
	// EarlierMayHaveRun: an attempt before the last one may.
	MayHaveRun, EarlierMayHaveRun bool
	// Failure is how the last attempt failed; nil when it did not.
	Failure *tool.Failure
}

// Moment is when a rule is asked or told something.
type Moment struct {
	At time.Time
	// Answer is what the call is answered, once that is known.
	Answer *result.Answer
	// Done: there is a final result. Released: it has not run, and its claim is given back.
	Done, Released bool
	// CharsLeft is how many characters are left in the prompt, 1 at least; 0 where nobody knows.
	CharsLeft int
}

// Ask is what is asked of the store.
type Ask struct {
	Draw dedupe.Draw
	// Logs are those of the conversation that are wanted.
	Logs []string
	Leaves
}

// Log asks for a log. Heard has it at the place that is returned.
func (a *Ask) Log(name string) (place int) {
	if a.Logs == nil {
		a.Logs = make([]string, 0, dedupe.MaxLogs)
	}
	a.Logs = append(a.Logs, name)
	return len(a.Logs) - 1
}

// Heard is what the store has said.
type Heard struct {
	// Unknown: it has said nothing, and the call goes on without a record.
	Unknown bool
	// Tally is that of Ask.Draw; the zero one where nobody knows.
	Tally dedupe.Tally
	// Exceeded is the ceiling that keeps the call from being made.
	Exceeded dedupe.Ceiling
	Logs     dedupe.Logs
	// Approved: a person has allowed the call under its id.
	Approved bool
	// Asked: it is only asked whether one has to, and the call would have the right to be made.
	Asked bool
}

// Entries are those of the log at a place, the oldest first; nil when the store did not
// say.
func (h *Heard) Entries(place int) [][]byte {
	if place >= len(h.Logs) {
		return nil
	}
	return h.Logs[place]
}

// Leaves are what a call leaves in its prompt.
type Leaves struct {
	Appends []dedupe.Append
	// Tokens are what its answer costs.
	Tokens int64
}

// Append leaves an entry in a log.
func (l *Leaves) Append(a dedupe.Append) { l.Appends = append(l.Appends, a) }

// Refusal is why a call is not made.
type Refusal struct {
	Error tool.Error
	// Name is that of the rule, for telemetry.
	Name string
	// Loop is what the loop guard has found; of Pass where it is not its refusal.
	Loop guard.Verdict
	// Hold says why a person has to allow the call first, in the place of Error; empty where
	// that would change nothing.
	Hold string
}

// Counter is the name by which a prompt is known within its conversation; without a name
// the whole conversation is one prompt.
func Counter(prompt string) string {
	switch {
	case prompt == "":
		return "."
	case len(prompt) < dedupe.MaxCounterBytes:
		return ":" + prompt
	default: // an id may be longer than a counter's name
		return "#" + hashed(prompt)
	}
}

// LogOf is the name of the log of some kind that a prompt has.
func LogOf(kind, prompt string) string {
	name := kind + Counter(prompt)
	if len(name) <= dedupe.MaxLogBytes {
		return name
	}
	return kind + "#" + hashed(prompt)
}

func hashed(prompt string) string {
	sum := sha256.Sum256([]byte(prompt))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Budget is what stands in a response of what a prompt may still use.
type Budget = sidecallv1.Budget
