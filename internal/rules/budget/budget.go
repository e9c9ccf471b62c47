// Package budget has the rule of a prompt's budget: what a call draws from it, what an
// output costs, what is left. What was used is counted by the store, in the step that
// claims a call; see dedupe.Tally.
package budget

import (
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/rules"
)

// rule is the budget of the call's prompt, as far as the call has to do with it.
type rule struct {
	rules.Idle

	call   *rules.Call
	limits Limits
	// tally is what the prompt had used when the store was asked last; known says
	// that it was.
	tally dedupe.Tally
	known bool
	// tokens are those of the call's own answer, and spent says that they are counted.
	tokens int64
	spent  bool
}

// New is the rules.Maker of the budget.
func New(c *rules.Call) rules.Rule {
	limits := LimitsOf(&c.Profile)
	if limits.None() || c.UnknownProfile || c.Key.Conversation == "" && c.Prompt == "" {
		return nil
	}
	return &rule{call: c, limits: limits}
}

// Check implements rules.Rule: a prompt is counted within its conversation.
func (r *rule) Check(*rules.Now) *rules.Refusal {
	if r.call.Key.Conversation != "" {
		return nil
	}
	return &rules.Refusal{Error: adrift(r.call.Prompt)}
}

// Ask implements rules.Rule.
func (r *rule) Ask(_ *rules.Now, ask *rules.Ask) {
	if r.call.Key.Conversation != "" {
		ask.Draw = r.limits.Draw(r.call.Prompt, r.call.TokensUsed)
	}
}

// names are the ceilings, as telemetry calls them.
var names = map[dedupe.Ceiling]string{
	dedupe.CallsCeiling:  "budget_calls",
	dedupe.TokensCeiling: "budget_tokens",
	dedupe.AgeCeiling:    "budget_time",
	dedupe.TokensShrank:  "tokens_shrank",
}

// Hear implements rules.Rule.
func (r *rule) Hear(_ *rules.Now, heard *rules.Heard) *rules.Refusal {
	if heard.Tally != (dedupe.Tally{}) {
		r.tally, r.known = heard.Tally, true
	}
	switch heard.Exceeded {
	case dedupe.NoCeiling:
		return nil
	case dedupe.TokensShrank:
		return &rules.Refusal{Error: shrank(r.call.TokensUsed, r.tally.Reported), Name: names[heard.Exceeded]}
	case dedupe.CallsCeiling, dedupe.TokensCeiling, dedupe.AgeCeiling:
	}
	return &rules.Refusal{Error: exceeded(heard.Exceeded, r.limits, r.tally), Name: names[heard.Exceeded]}
}

// End implements rules.Rule. An error says all it will, and what else a model is told of
// it has to fit into what is left then.
func (r *rule) End(now *rules.Now) {
	if now.Claimed && now.Answer.Error != nil {
		r.spend(now, now.Answer.Content())
	}
	if r.known && r.limits.Tokens > 0 {
		now.CharsLeft = max(1, Chars(r.limits.Tokens-r.tally.Tokens()))
	}
}

// spend takes down what an ended call adds to the tokens of its prompt: what it says,
// when it says what was done. The claim of another is given back.
func (r *rule) spend(now *rules.Now, content string) {
	switch {
	case r.spent:
		return
	case now.Released:
		r.tally.Calls = max(0, r.tally.Calls-1)
	default:
		r.tokens = Estimate(utf8.RuneCountInString(content))
		r.tally.Estimated += r.tokens
	}
	r.spent = true
}

// Leave implements rules.Rule.
func (r *rule) Leave(now *rules.Now, res *result.Response, leaves *rules.Leaves) {
	if now.Claimed {
		r.spend(now, res.GetContent())
		leaves.Tokens = r.tokens
	}
	if r.known {
		res.Budget = r.limits.Left(&r.tally)
	}
}

// Left is what stands in a response, once something was used.
func (l Limits) Left(used *dedupe.Tally) *rules.Budget {
	left := &rules.Budget{
		ToolCallsUsed: used.Calls, ToolCallsLimit: l.Calls,
		TokensUsed: used.Tokens(), TokensLimit: l.Tokens,
	}
	if l.Duration > 0 && !used.StartedAt.IsZero() {
		left.Deadline = timestamppb.New(used.StartedAt.Add(l.Duration))
	}
	return left
}
