package call

import (
	"cmp"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// codeRules are the rules of which the code tells, when nothing was sent. Where a
// code has several, whoever refuses a call says which in call.rule; the loop guard in
// its finding.
var codeRules = map[tool.Code]string{
	tool.CodePermissionDenied: "profile",
	tool.CodeIDReused:         "id_reused",
	tool.CodeCircuitOpen:      "breaker",
	tool.CodeRateLimited:      "rate_limit",
	tool.CodeOverloaded:       "overloaded",
	tool.CodeStoreUnavailable: "store",
	tool.CodeDuplicateEffect:  "effect_duplicate",
	"APPROVAL_REQUIRED":       "approval",
}

// ceilingRules are those of a prompt's budget.
var ceilingRules = map[dedupe.Ceiling]string{
	dedupe.CallsCeiling:  "budget_calls",
	dedupe.TokensCeiling: "budget_tokens",
	dedupe.AgeCeiling:    "budget_time",
	dedupe.TokensShrank:  "tokens_shrank",
}

// refusedBy is the rule by which a call was refused before anything was sent, for
// telemetry; empty when it was not.
func (c *call) refusedBy(res *response) string {
	code := tool.Code(res.GetError().GetCode())
	if c.tried.sent > 0 || res.GetReplayed() {
		return ""
	}
	switch code {
	case tool.CodeLoopDetected:
		return c.loop.finding.Rule.String()
	case tool.CodePermissionDenied, tool.CodeBudgetExceeded, tool.CodeInvalidArgs:
		return cmp.Or(c.rule, codeRules[code])
	default: // whatever was about to refuse it
		return codeRules[code]
	}
}
