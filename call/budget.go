package call

import (
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/budget"
	"github.com/sidecall/sidecall/call/explain"
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/dedupe"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// purse is the budget of the call's prompt, as far as the call has to do with it.
// The zero value is that of a call that is not counted.
type purse struct {
	limits  budget.Limits
	counter string
	// tally is what the prompt had used when the store was asked last; known says
	// that it was.
	tally dedupe.Tally
	known bool
}

// counted reports that the prompt has a budget.
func (p *purse) counted() bool { return p.counter != "" }

// count says by which tally the call is counted; it refuses a prompt that cannot be.
func (c *call) count(profile catalog.Profile) *answer {
	limits := limitsOf(profile)
	switch {
	case limits.None():
	case c.Key.Conversation != "":
		c.purse = purse{limits: limits, counter: budget.Counter(c.Prompt)}
	case c.Prompt != "":
		return c.result().Refused(explain.Adrift(c.Prompt), 0)
	}
	return nil
}

func limitsOf(profile catalog.Profile) budget.Limits {
	return budget.Limits{Calls: profile.MaxCalls, Tokens: profile.MaxTokens, Duration: profile.MaxDuration}
}

// draw asks for the call's part of the budget, together with its claim.
func (c *call) draw(req *dedupe.Request) {
	if c.purse.counted() {
		req.Draw = c.purse.limits.Draw(c.Prompt, c.TokensUsed)
	}
}

// learn takes down what the store says of the budget.
func (p *purse) learn(tally dedupe.Tally) {
	if p.counted() && tally != (dedupe.Tally{}) {
		p.tally, p.known = tally, true
	}
}

// exceeded refuses a call for which the budget has no room.
func (c *call) exceeded(ceiling dedupe.Ceiling) *answer {
	c.rule = ceilingRules[ceiling]
	if ceiling == dedupe.TokensShrank {
		return c.result().Refused(explain.Shrank(c.TokensUsed, c.purse.tally.Reported), 0)
	}
	return c.result().Refused(explain.BudgetExceeded(ceiling, c.purse.limits, c.purse.tally), 0)
}

// spend is what an ended call adds to the tokens of its prompt: what it says, when
// it says what was done. It takes it down as well.
func (p *purse) spend(state dedupe.State, content string) (tokens int64) {
	switch {
	case !p.counted():
	case state == dedupe.NotRun:
		p.tally.Calls = max(0, p.tally.Calls-1) // it is given back
	default:
		tokens = budget.Estimate(utf8.RuneCountInString(content))
		p.tally.Estimated += tokens
	}
	return tokens
}

// room is how many characters are left in the prompt, 1 at least; 0 where nobody knows.
func (p *purse) room() int {
	if !p.known || p.limits.Tokens == 0 {
		return 0
	}
	return max(1, budget.Chars(p.limits.Tokens-p.tally.Tokens()))
}

// left is what stands in the response; nil when nothing is counted, or known.
func (p *purse) left() *sidecallv1.Budget {
	if !p.known {
		return nil
	}
	left := &sidecallv1.Budget{
		ToolCallsUsed: p.tally.Calls, ToolCallsLimit: p.limits.Calls,
		TokensUsed: p.tally.Tokens(), TokensLimit: p.limits.Tokens,
	}
	if p.limits.Duration > 0 && !p.tally.StartedAt.IsZero() {
		left.Deadline = timestamppb.New(p.tally.StartedAt.Add(p.limits.Duration))
	}
	return left
}
