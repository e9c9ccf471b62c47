package budget

import (
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/tool"
)

// wrapUp is what a model is to do that may make no more calls.
const wrapUp = "Nothing was sent. Make no more tool calls for this prompt, other tools included. " +
	"Wrap up now: answer with what you have, say what was done and what was not, and ask the user whether to go on."

// exceeded refuses a call for which the budget of its prompt has no room.
func exceeded(ceiling dedupe.Ceiling, limits Limits, used dedupe.Tally) tool.Error {
	e := tool.Error{Code: tool.CodeBudgetExceeded, Hint: wrapUp}
	switch ceiling {
	case dedupe.CallsCeiling:
		e.Constraint = fmt.Sprintf("at most %d tool calls per prompt", limits.Calls)
		e.Received = fmt.Sprintf("%d were made", used.Calls)
	case dedupe.TokensCeiling:
		e.Constraint = fmt.Sprintf("at most %d tokens per prompt", limits.Tokens)
		e.Received = fmt.Sprintf("%d were used", used.Tokens())
	case dedupe.AgeCeiling:
		e.Constraint = fmt.Sprintf("at most %v per prompt", limits.Duration)
		e.Received = "it began at " + used.StartedAt.UTC().Format(time.RFC3339)
	case dedupe.NoCeiling, dedupe.TokensShrank:
	}
	return e
}

// shrank refuses a count of tokens that is lower than one before it.
func shrank(tokens, before int64) tool.Error {
	return explain.BadRequest("tokens_used", fmt.Sprintf("must not shrink within a prompt: %d were reported before", before), fmt.Sprint(tokens))
}

// adrift refuses a prompt without the conversation by which it is counted.
func adrift(prompt string) tool.Error {
	return explain.BadRequest("conversation_id", "is required with prompt_id "+tool.Quote(prompt)+", whose profile has a budget: prompts are counted within their conversation", explain.Missing)
}
