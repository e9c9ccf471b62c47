// Package history has the rule that a failed call is told what was tried before it, and
// what to try next: the words are of package failures.
package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/rules/history/failures"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// rule is what one call knows of the attempts before it.
type rule struct {
	rules.Idle
	about

	call *rules.Call
	how  *catalog.Recovery
	// earlier and recent are the places of the two logs, and heard what they have;
	// ready says that there is something to tell by.
	earlier, recent int
	heard           rules.Heard
	ready           bool
	// written is what it leaves: a refused call before the logs are read.
	written failures.Advice
}

// about is what a call is about.
type about struct {
	// log is that of the attempts at the operation and target; args are the arguments
	// without what is never shown, nil where they are of no account.
	operation, target, log string
	args                   map[string]any
}

// New is the rules.Maker of the history.
func New(c *rules.Call) rules.Rule {
	how := c.Snapshot.Advice.Of(c.Route)
	if how == nil || c.Key.Conversation == "" || c.UnknownProfile || c.Profile.Untold {
		return nil
	}
	return &rule{call: c, how: how}
}

// unknownTools is the log of all calls of tools that there are not, of which a model can
// make up any number.
var unknownTools = failures.LogOf("", "")

// Ask implements rules.Rule. A refusal pays one look: it leaves this attempt behind those
// before it. A call for which there is no room is not told: what it costs would be more of
// what there is too much of. What is wrong with the program's part of a request no model
// can do anything about.
func (r *rule) Ask(now *rules.Now, ask *rules.Ask) {
	refused := now.Answer
	if refused != nil && (now.Faultless || refused.Code() == tool.CodeOverloaded || !worthTelling(refused)) {
		return
	}
	r.operation, r.log = tool.Shorten(r.call.Tool, maxName), unknownTools
	if now.Args != nil && r.call.Route != nil {
		// Of a tool that is not there nobody knows which arguments are secret, and they do
		// not matter.
		r.args = r.call.Route.Schema.Redacted(now.Written)
		r.target = r.how.Targeting.Of(r.args)
	}
	if r.call.Route != nil {
		r.log = failures.LogOf(r.operation, r.target)
	}
	r.earlier, r.recent = ask.Log(r.log), ask.Log(failures.RecentLog)
	if refused != nil {
		r.ready, r.written = true, r.advisor().Foresee(r.failure(now))
		r.leave(&ask.Leaves)
	}
}

// maxName is how much of a name that no tool has is written down, in characters.
const maxName = 128

func (r *rule) advisor() *failures.Advisor { return r.call.Snapshot.Advice.Advisor }

// Hear implements rules.Rule.
func (r *rule) Hear(_ *rules.Now, heard *rules.Heard) *rules.Refusal {
	r.heard, r.ready = *heard, true
	return nil
}

// End implements rules.Rule: it adds what was tried before a call that failed, and what was
// not. A call that was admitted leaves itself for those after it.
func (r *rule) End(now *rules.Now) {
	if !r.ready || r.log == "" || !worthTelling(now.Answer) {
		return
	}
	advice := r.advisor().Explain(r.failure(now))
	now.Answer.Context = advice.Context
	now.Answer.Foreign = now.Answer.Foreign || advice.Untrusted
	if now.Claimed {
		r.written = advice
	}
}

// Leave implements rules.Rule.
func (r *rule) Leave(now *rules.Now, _ *result.Response, leaves *rules.Leaves) {
	if now.Claimed {
		r.leave(leaves)
	}
}

// leave writes what later failures will know of this one.
func (r *rule) leave(leaves *rules.Leaves) {
	if r.written.Entry != nil {
		leaves.Append(dedupe.Append{Log: r.log, Entry: r.written.Entry, Keep: failures.KeptAttempts})
	}
	if r.written.Recent != nil {
		leaves.Append(dedupe.Append{Log: failures.RecentLog, Entry: r.written.Recent, Keep: failures.KeptRecent})
	}
}

// worthTelling reports answers that get a block: errors, but for those of the sidecar
// itself, of which no other call helps.
func worthTelling(a *result.Answer) bool {
	switch a.Code() {
	case "", tool.CodeInternal, tool.CodeStoreUnavailable, tool.CodeBudgetExceeded, tool.CodeLoopDetected,
		tool.CodeCancelled, tool.CodeIDReused, tool.CodeInProgress, tool.CodeApprovalRequired:
		return false
	default:
		return !a.Replayed
	}
}

// failure is the call as the advisor sees it: without secrets, whosoever they are.
func (r *rule) failure(now *rules.Now) *failures.Failure {
	a, route := now.Answer, r.call.Route
	f := &failures.Failure{
		Operation: r.operation, Target: r.target, Arguments: r.args,
		Code: a.Code(),
		At:   now.At, // it is told in minutes, for which the clocks of sidecars are near enough
		Next: failures.Next{MayHaveRun: now.Claimed && now.MayHaveRun, Callable: r.callable()},
		Room: failures.Room{CharsLeft: now.CharsLeft, MaxChars: r.how.MaxChars},
		Logs: failures.Logs{
			Earlier: before(r.heard.Entries(r.earlier), r.written.Entry),
			Recent:  before(r.heard.Entries(r.recent), r.written.Recent),
		},
	}
	f.Error, f.Untrusted = r.said(now)
	f.Error = r.withoutSecretArgs(f.Error, now.Args)
	if a.SuggestedTool == "" {
		f.Corrected = result.Shown(a.SuggestedArguments)
	}
	if route != nil && route.Secrets != nil { // a model may quote one
		f.Error = route.Secrets.Replace(f.Error)
		f.Target = route.Secrets.Replace(f.Target)
		f.Arguments, _ = withoutSecrets(f.Arguments, route.Secrets.Replace).(map[string]any)
		if route.Secrets.Found([]byte(f.Corrected)) {
			f.Corrected = ""
		}
	}
	return f
}

// before are the entries before the call's own.
func before(entries [][]byte, own []byte) [][]byte {
	if last := len(entries) - 1; last >= 0 && own != nil && slices.Equal(entries[last], own) {
		return entries[:last]
	}
	return entries
}

// maxTold is how much of a rule is told, in characters: it may list all tools.
const maxTold = 300

// said is what went wrong, word for word: the upstream's words where there are any,
// else which argument breaks which rule; and whether they are those of a tool that is
// not trusted.
func (r *rule) said(now *rules.Now) (words string, untrusted bool) {
	e, f := now.Answer.Error, now.Failure
	if f != nil && now.Sent > 0 && e.Received != "" && e.Received != tool.ReceivedRedacted && !explain.Ours(f) {
		of := &r.call.Route.Tool
		return e.Received, of.Policy.Untrusted && of.Backend != catalog.BuiltIn
	}
	words = tool.Shorten(e.Constraint, maxTold)
	if e.Field != "" {
		words = e.Field + ": " + words
		if e.Received != "" {
			words += ", received " + e.Received
		}
	}
	if more := len(now.Answer.Violations) - 1; more > 0 {
		words += fmt.Sprintf("; and %s", tool.Count(more, "more violation"))
	}
	return words, false
}

// maxSecretArgs is how many secret arguments are looked for in an error; of a call with
// more nothing that was said is kept.
const maxSecretArgs = 64

// withoutSecretArgs takes arguments that are never shown out of what was said of them.
func (r *rule) withoutSecretArgs(said string, args map[string]any) string {
	if r.call.Route == nil || args == nil {
		return said
	}
	secrets := r.call.Route.Schema.SecretTexts(args)
	if len(secrets) > maxSecretArgs {
		return tool.ReceivedRedacted
	}
	for _, secret := range secrets {
		if len(secret) > 2 { // else it hides words and numbers that mean something else
			said = strings.ReplaceAll(said, secret, tool.ReceivedRedacted)
		}
	}
	return said
}

// callable reports which tools may be suggested to the call: those that its profile may
// call and no breaker blocks, with no stronger effect than its own. What a name that no
// tool has was to do nobody knows, so any effect would be stronger.
func (r *rule) callable() func(name string) bool {
	effect := tool.ReadOnly
	if r.call.Route != nil {
		effect = r.call.Route.Tool.Effect
	}
	return func(name string) bool {
		route, ok := r.call.Snapshot.Lookup(name)
		return ok && route.Refused == "" && r.call.Profile.Allows(name) && !schema.Stronger(route.Tool.Effect, effect) && route.Blocked() == 0
	}
}

// withoutSecrets is a decoded value with the secrets of the config taken out of its
// texts.
func withoutSecrets(v any, replace func(string) string) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v // which says that there is none
		}
		out := make(map[string]any, len(v))
		for name, child := range v {
			out[replace(name)] = withoutSecrets(child, replace)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = withoutSecrets(child, replace)
		}
		return out
	case string:
		return replace(v)
	}
	return v
}
