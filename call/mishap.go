package call

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sidecall/sidecall/call/explain"
	"github.com/sidecall/sidecall/call/result"
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/failures"
	"github.com/sidecall/sidecall/schema"
	"github.com/sidecall/sidecall/tool"
)

// mishap is the call as the advisor sees it: without secrets, whosoever they are.
func (c *call) mishap(a *answer) *failures.Failure {
	f := &failures.Failure{
		Operation: c.past.operation, Target: c.past.target, Arguments: c.past.args,
		Code: a.Code(), MayHaveRun: c.claim != nil && c.mayHaveRun(),
		At:   time.Now(), // it is told in minutes, for which the clocks of sidecars are near enough
		Room: c.purse.room(), MaxChars: c.past.how.MaxChars, Callable: c.callable(),
		Earlier: before(c.book.entries(c.past.earlier), c.past.written.Entry),
		Recent:  before(c.book.entries(c.past.recent), c.past.written.Recent),
	}
	f.Error, f.Untrusted = c.said(a)
	f.Error = c.withoutSecretArgs(f.Error)
	if a.SuggestedTool == "" {
		f.Corrected = result.Shown(a.SuggestedArguments)
	}
	if c.route != nil && c.route.Secrets != nil { // a model may quote one
		f.Error = c.route.Secrets.Replace(f.Error)
		f.Target = c.route.Secrets.Replace(f.Target)
		f.Arguments, _ = withoutSecrets(f.Arguments, c.route.Secrets.Replace).(map[string]any)
		if c.route.Secrets.Found([]byte(f.Corrected)) {
			f.Corrected = ""
		}
	}
	return f
}

// maxSecretArgs is how many secret arguments are looked for in an error; of a call with
// more nothing that was said is kept.
const maxSecretArgs = 64

// withoutSecretArgs takes arguments that are never shown out of what was said of them.
func (c *call) withoutSecretArgs(said string) string {
	if c.route == nil || c.args == nil {
		return said
	}
	secrets := c.route.Schema.SecretTexts(c.args)
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

// before are the entries before the call's own.
func before(entries [][]byte, own []byte) [][]byte {
	if last := len(entries) - 1; last >= 0 && own != nil && slices.Equal(entries[last], own) {
		return entries[:last]
	}
	return entries
}

// said is what went wrong, word for word: the upstream's words where there are any,
// else which argument breaks which rule; and whether they are those of a tool that is
// not trusted.
func (c *call) said(a *answer) (words string, untrusted bool) {
	e := a.Error
	f, received := c.tried.reading.Failure, e.Received
	if f != nil && c.tried.sent > 0 && received != "" && received != tool.ReceivedRedacted && !explain.Ours(f) {
		return received, c.route.Tool.Policy.Untrusted && c.route.Tool.Backend != catalog.BuiltIn
	}
	words = tool.Shorten(e.Constraint, maxTold)
	if e.Field != "" {
		words = e.Field + ": " + words
		if received != "" {
			words += ", received " + received
		}
	}
	if more := len(a.Violations) - 1; more > 0 {
		words += fmt.Sprintf("; and %s", tool.Count(more, "more violation"))
	}
	return words, false
}

// callable reports which tools may be suggested to the call: those that its profile may
// call and no breaker blocks, with no stronger effect than its own. What a name that no tool has was to do
// nobody knows, so any effect would be stronger.
func (c *call) callable() func(name string) bool {
	profile, _ := c.profile() // a call without one is not told
	effect := tool.ReadOnly
	if c.route != nil {
		effect = c.effect()
	}
	return func(name string) bool {
		route, ok := c.snapshot.Lookup(name)
		return ok && route.Refused == "" && profile.Allows(name) && !schema.Stronger(route.Tool.Effect, effect) && route.Blocked() == 0
	}
}

// maxTold is how much of a rule is told, in characters: it may list all tools.
const maxTold = 300

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
