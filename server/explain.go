package server

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/retry"
	"github.com/sidecall/sidecall/tool"
)

// Errors are prompts: every function here answers, for one kind of failure,
// what was violated and what the model should do next. Nothing of the
// sidecar's own (Go errors, addresses, secrets) goes into them.

// messageLimit caps what an upstream said, in characters.
const messageLimit = 400

// explainFailure explains the last failure of a call's attempts.
func explainFailure(c *call, f *tool.Failure, report retry.Report) tool.Error {
	name := c.route.Tool.Name
	explained := tool.Error{
		Code:       f.Code,
		Field:      f.Field,
		Constraint: f.Constraint,
		Received:   c.said(f),
		Hint:       f.Hint,
	}
	if explained.Constraint == "" {
		explained.Constraint = constraints[f.Code]
	}
	if explained.Hint == "" {
		explained.Hint = hint(c, f)
	}
	if f.Evidence == tool.Definite && c.earlierMayHaveRun() {
		explained.Hint += " But an earlier attempt of this call may have had its effect: look at the current state before you rely on this answer."
	}
	if c.sent > 1 {
		explained.Hint += fmt.Sprintf(" Sidecall made %d attempts at %s over %s.", c.sent, name, round(report.Elapsed))
	}
	return explained
}

// said is what the upstream said about a failure, fit to be shown. What is said
// of an argument that is never shown may quote it.
func (c *call) said(f *tool.Failure) string {
	if f.Message != "" && c.secretField(f.Field) {
		return "(redacted)"
	}
	return c.cleaned(f.Message, messageLimit)
}

// constraints say what was violated when neither the backend nor the tool's
// error mapping said it.
var constraints = map[tool.Code]string{
	tool.CodeNotFound:              "the upstream does not know what the arguments name",
	tool.CodePermissionDenied:      "the upstream does not allow this",
	tool.CodeUnauthenticated:       "the upstream does not accept the sidecar's credentials",
	tool.CodeConflict:              "the state at the upstream does not allow this now",
	tool.CodeBusinessRule:          "a rule of the upstream forbids this",
	tool.CodeUnrecoverable:         "the tool failed for good",
	tool.CodeRateLimited:           "the upstream takes no more requests at the moment",
	tool.CodeTimeout:               "the tool did not answer in time",
	tool.CodeDependencyUnavailable: "the upstream cannot be reached or fails",
	tool.CodeCircuitOpen:           "the upstream has been failing, so nothing is sent to it for a while",
	tool.CodeInvalidOutput:         "the tool's answer cannot be read",
	tool.CodeCancelled:             "the caller cancelled the call",
	tool.CodeStoreUnavailable:      "the call cannot be recorded",
	tool.CodeInvalidArgs:           "the tool rejects the arguments",
	tool.CodeUnknownTool:           "the backend does not know this tool any more",
	tool.CodeInternal:              "the sidecar failed while it ran this call",
}

// hint says what to do next after a failure that brought no hint of its own.
func hint(c *call, f *tool.Failure) string {
	name := c.route.Tool.Name
	alternatives := ""
	if len(f.AllowedAlternatives) > 0 {
		alternatives = " You may call instead: " + strings.Join(f.AllowedAlternatives, ", ") + "."
	}
	if f.Code.Class() == tool.Transient && f.Evidence != tool.Definite && c.mayHaveRun() {
		return c.onlySameID(f.RetryAfter)
	}
	switch f.Code {
	case tool.CodeInvalidArgs:
		return fmt.Sprintf("Correct the arguments as described, then call %s again.", name)
	case tool.CodeNotFound:
		return fmt.Sprintf("Look up the right id first, then call %s with it; the same arguments will fail again.", name) + alternatives
	case tool.CodePermissionDenied:
		return "Do not repeat this call: it stays forbidden. Use another way, or tell the user." + alternatives
	case tool.CodeUnauthenticated:
		return fmt.Sprintf("Do not repeat this call. Tell the user that an operator must renew the credentials of %q.", c.route.Tool.Backend)
	case tool.CodeConflict:
		return fmt.Sprintf("Read the current state first, then decide whether to call %s again.", name) + alternatives
	case tool.CodeBusinessRule:
		return "Do not repeat this call: the answer will be the same. Choose another way, or tell the user." + alternatives
	case tool.CodeRateLimited, tool.CodeCircuitOpen, tool.CodeOverloaded, tool.CodeStoreUnavailable:
		return fmt.Sprintf("%sCall %s again %s, or go on without it.", c.nothingSent(), name, after(f.RetryAfter))
	case tool.CodeTimeout:
		return fmt.Sprintf("Ask %s for less at a time (a smaller range, fewer items), or call it again later.", name)
	case tool.CodeDependencyUnavailable:
		return fmt.Sprintf("Do not call %s again right away: try it %s, go on without it, or tell the user.", name, after(f.RetryAfter))
	case tool.CodeCancelled:
		return fmt.Sprintf("Call %s again if it is still wanted.", name)
	case tool.CodeInvalidOutput:
		return fmt.Sprintf("The tool ran. Do not repeat the call; tell the user that the answer of %s cannot be read.", name)
	default:
		return "Do not repeat this call: it will fail in the same way. Change the approach, or tell the user." + alternatives
	}
}

// nothingSent assures the model where that is certain.
func (c *call) nothingSent() string {
	if c.sent == 0 {
		return "Nothing was sent. "
	}
	return ""
}

// onlySameID is for a call that may have run, and that its id keeps from running
// twice: a model that calls again has another id.
func (c *call) onlySameID(wait time.Duration) string {
	name := c.route.Tool.Name
	hint := fmt.Sprintf("%s may have run: do not start it anew under another id. Sending the same call with the same id again %s is safe", name, after(wait))
	if verify := c.route.Tool.Policy.VerifyWith; verify != "" {
		return hint + fmt.Sprintf("; or call %s.", c.askWith(verify))
	}
	return hint + "; or tell the user."
}

// warnOfAnother warns of what an earlier request with this id may have done.
func (c *call) warnOfAnother() string {
	if !c.mayHaveRun() {
		return ""
	}
	return fmt.Sprintf(" If this id was sent before, %s may have run then: do not start it anew under another id.", c.route.Tool.Name)
}

func after(wait time.Duration) string {
	if wait <= 0 {
		return "later"
	}
	return "after " + round(wait).String()
}

// explainUnknown explains a call that may or may not have happened.
func explainUnknown(c *call, f *tool.Failure) tool.Error {
	constraint := f.Constraint
	if constraint == "" {
		constraint = constraints[f.Code]
	}
	if constraint == "" {
		constraint = "the connection to the tool was lost"
	}
	name := c.route.Tool.Name
	hint := fmt.Sprintf("%s may or may not have happened. Do not call it again until you know: ", name)
	if verify := c.route.Tool.Policy.VerifyWith; verify != "" {
		hint += fmt.Sprintf("call %s.", c.askWith(verify))
	} else {
		hint += "check by other means, or ask the user to."
	}
	return tool.Error{
		Code: tool.CodeOutcomeUnknown, Constraint: constraint,
		Received: c.said(f), Hint: hint,
	}
}

func explainForbidden(c *call, profile Profile) tool.Error {
	return tool.Error{
		Code:       tool.CodePermissionDenied,
		Constraint: fmt.Sprintf("the profile %q may not call %s", profile.Name, c.route.Tool.Name),
		Received:   quote(c.route.Tool.Name),
		Hint:       "Do not repeat this call: it stays forbidden. Use only the tools you were given, or tell the user.",
	}
}

// explainOverloaded refuses a call of whose id nothing is known: looking it up
// would be more of what there is too much of already. So it promises nothing
// about earlier requests with this id, and warns where that matters.
func explainOverloaded(c *call) tool.Error {
	hint := fmt.Sprintf("Nothing was sent now. Send the same call with the same id again after %s, with fewer calls at the same time.", overloadRetryAfter)
	return tool.Error{Code: tool.CodeOverloaded, Constraint: c.places.isFull(), Hint: hint + c.warnOfAnother()}
}

// explainNoRoom refuses a call whose record was looked at. The record of an
// effect that may be repeated does not prove that nothing was done; none at all
// does, but for a twin that is just being admitted: hence the same id.
func explainNoRoom(c *call, state dedupe.State) tool.Error {
	if state != dedupe.Absent && c.effect() != tool.NonIdempotent {
		return explainOverloaded(c)
	}
	return tool.Error{
		Code:       tool.CodeOverloaded,
		Constraint: c.places.isFull(),
		Hint:       fmt.Sprintf("Nothing was sent. Call %s again with the same id after %s, with fewer calls at the same time.", c.route.Tool.Name, overloadRetryAfter),
	}
}

func explainReused(c *call, record dedupe.Record) tool.Error {
	what := "other arguments"
	if record.Tool != c.route.Tool.Name {
		what = "another tool, " + record.Tool
	}
	return tool.Error{
		Code:       tool.CodeIDReused,
		Constraint: fmt.Sprintf("the id %s was used before with %s", quote(c.req.GetToolUseId()), what),
		Received:   quote(c.req.GetToolUseId()),
		Hint: fmt.Sprintf("Nothing was sent. Call %s with a new id; the program must send a turn_id when its ids repeat from turn to turn.",
			c.route.Tool.Name),
	}
}

func explainInProgress(c *call) tool.Error {
	return tool.Error{
		Code:       tool.CodeInProgress,
		Constraint: "a call with this id is still running",
		Received:   quote(c.req.GetToolUseId()),
		Hint:       "Do not start it a second time: ask for the result again with the same id after 1s.",
	}
}

// explainStoreDown refuses a call whose record cannot be seen: an earlier
// request with its id may have done everything.
func explainStoreDown(c *call) tool.Error {
	return tool.Error{
		Code:       tool.CodeStoreUnavailable,
		Constraint: "the store that keeps calls from happening twice is down",
		Hint: fmt.Sprintf("Nothing was sent now. Send the same call with the same id again %s, or go on without it.",
			after(storeRetryAfter)) + c.warnOfAnother(),
	}
}

func explainLostResult(c *call) tool.Error {
	return tool.Error{
		Code:       tool.CodeInvalidOutput,
		Constraint: "the call was done before, but its result cannot be read any more",
		Hint:       fmt.Sprintf("%s has happened. Do not call it again; read the current state instead.", c.route.Tool.Name),
	}
}

// explainBug gives the model an id that the operator finds in the log beside
// the stack.
func explainBug(c *call) tool.Error {
	id := "err_" + rand.Text()[:12]
	c.cause = fmt.Errorf("%s: %w", id, c.cause)
	return tool.Error{
		Code:       tool.CodeInternal,
		Constraint: constraints[tool.CodeInternal],
		Hint:       fmt.Sprintf("Do not repeat this call. Tell the user to report the error id %s.", id),
	}
}

// quote shows a string as JSON does, shortened to 200 characters.
func quote(s string) string { return fmt.Sprintf("%q", shorten(s, 200)) }

// shorten cuts s to at most limit characters, the last one then being an
// ellipsis.
func shorten(s string, limit int) string {
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n++; n == limit {
			return s[:i] + "…"
		}
	}
	return s
}

// round makes a duration readable.
func round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Millisecond)
	}
}

// shapeOf describes arguments by names and types, sorted, for the log. Values
// never appear.
func shapeOf(args map[string]any) string {
	if len(args) == 0 {
		return "{}"
	}
	var few [16]string
	names := few[:0]
	for name := range args {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.Grow(24 * min(len(names), 32))
	for i, name := range names {
		if i == 32 {
			fmt.Fprintf(&b, ",…%d more", len(names)-i)
			break
		}
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(shorten(name, 64))
		b.WriteByte(':')
		writeType(&b, args[name])
	}
	b.WriteByte('}')
	return b.String()
}

func writeType(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString("boolean")
	case string:
		b.WriteString("string")
	case []any:
		b.WriteString("array[")
		b.WriteString(strconv.Itoa(len(v)))
		b.WriteByte(']')
	case map[string]any:
		b.WriteString("object")
	default:
		b.WriteString("number")
	}
}
