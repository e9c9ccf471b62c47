package telemetry

import "slices"

// What is said of prompts that nobody says anything of.
const (
	exitOther   = "other"   // EndPrompt gave a reason of its own
	exitIdle    = "idle"    // nothing was called for PromptIdle
	exitEvicted = "evicted" // too many prompts were open
)

// exits are the reasons for the end of a prompt that metrics tell apart.
var exits = []string{
	"end_turn", "max_tokens", "refusal", "budget_exceeded", "error", "loop_detected", "cancelled", "timeout",
	exitOther, exitIdle, exitEvicted,
}

const (
	ruleEffectDuplicate = "effect_duplicate"
	ruleOther           = "other"
)

// rules are the rules by which calls are refused that metrics tell apart.
var rules = []string{
	"budget_calls", "budget_tokens", "budget_time", "tokens_shrank", // the budget of the prompt
	"same_call", "cycle", "same_error", "same_result", "malformed", "duplicate", // the loop guard
	ruleEffectDuplicate, "id_reused", "approval", "taint", "profile", "definition",
	"breaker", "rate_limit", "overloaded", "store", ruleOther,
}

// Rules returns the rules of CallEnd.Rule that are counted by their names.
func Rules() []string { return slices.Clone(rules) }
