package call

import (
	"slices"
	"testing"

	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
)

// Whatever refuses a call is counted under its own name.
func TestEveryRuleIsCounted(t *testing.T) {
	var names []string
	for rule := guard.SameCall; rule <= guard.Duplicate; rule++ {
		names = append(names, rule.String())
	}
	for _, name := range codeRules {
		names = append(names, name)
	}
	for _, name := range names {
		if !slices.Contains(telemetry.Rules(), name) {
			t.Errorf("telemetry does not know the rule %q", name)
		}
	}
}

// A rule is told of what was refused, and not of what was sent or had been before.
func TestByWhichRuleACallWasRefused(t *testing.T) {
	failed := func(code tool.Code) *response {
		return rendered((&call{}).result().Refused(tool.Error{Code: code, Constraint: "x", Hint: "y"}, 0))
	}
	replayed := failed(tool.CodePermissionDenied)
	replayed.Replayed = true
	for name, c := range map[string]struct {
		res  *response
		rule string
		sent int
		want string
	}{
		"a success":                     {res: &response{}},
		"an open breaker":               {res: failed(tool.CodeCircuitOpen), want: "breaker"},
		"which opened in the middle":    {res: failed(tool.CodeCircuitOpen), sent: 1},
		"the profile":                   {res: failed(tool.CodePermissionDenied), want: "profile"},
		"the upstream":                  {res: failed(tool.CodePermissionDenied), sent: 1},
		"before a restart":              {res: replayed},
		"a definition":                  {res: failed(tool.CodePermissionDenied), rule: "definition", want: "definition"},
		"which is running all the same": {res: failed(tool.CodeInProgress), rule: "definition"},
		"a guard":                       {res: failed(tool.CodeLoopDetected), rule: guard.Cycle.String(), want: "cycle"},
		"a nudge with it":               {res: failed(tool.CodeInvalidArgs)},
		"a look that fails":             {res: failed(tool.CodeStoreUnavailable), rule: guard.Duplicate.String(), want: "store"},
		"untrusted output":              {res: failed(tool.CodePermissionDenied), rule: "taint", want: "taint"},
		"its arguments":                 {res: failed(tool.CodeInvalidArgs)},
		"a ceiling":                     {res: failed(tool.CodeBudgetExceeded), rule: "budget_tokens", want: "budget_tokens"},
	} {
		made := &call{log: report{rule: c.rule}}
		made.now.Sent = c.sent
		if got := endOf(made, c.res, false).Rule; got != c.want {
			t.Errorf("%s: refused by %q, want %q", name, got, c.want)
		}
	}
}
