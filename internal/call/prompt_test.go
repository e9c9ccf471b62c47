package call_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// metered is a sidecar whose profile "tight" has three calls, and whose metrics can
// be read.
func metered(t *testing.T, routes ...*catalog.Route) (s *calltest.Sidecar, metrics func() string, log *bytes.Buffer) {
	t.Helper()
	log = new(bytes.Buffer)
	observed, err := telemetry.Start(t.Context(), telemetry.Service{Version: "test"}, slog.NewJSONHandler(log, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := observed.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s = calltest.New(t, routes...)
	s.Profile(catalog.Profile{Name: "tight", Tools: []string{"*"}, MaxCalls: 3})
	s.With(func(p *call.Parts) { p.Recorder = observed.Recorder })
	return s, func() string {
		page := httptest.NewRecorder()
		observed.Metrics.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		return page.Body.String()
	}, log
}

// says checks that a page has these samples.
func says(t *testing.T, page string, samples ...string) {
	t.Helper()
	for _, sample := range samples {
		if !strings.Contains(page, "\n"+sample+"\n") {
			t.Errorf("no %s in\n%s", sample, lines(page, sample[:strings.IndexAny(sample, "{ ")]))
		}
	}
}

func lines(page, prefix string) string {
	var found []string
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// A prompt from its begin to its end: the budget is told, the calls are counted, a
// ceiling refuses, a duplicate is a replay.
func TestAPromptIsCountedFromItsBeginToItsEnd(t *testing.T) {
	s, metrics, log := metered(t, calltest.NewRoute(t, "act", tool.NonIdempotent, calltest.Fails(1, calltest.NotFound)))
	p := call.Prompt{Conversation: "c1", ID: "p1", Choice: call.Choice{Profile: "tight"}}
	left, err := s.Prompts().StartPrompt(t.Context(), p)
	if err != nil || left.GetToolCallsLimit() != 3 || left.GetToolCallsUsed() != 0 {
		t.Fatalf("at the begin: %v, %v", left, err)
	}
	for i, id := range []string{"1", "2", "2", "3", "4"} {
		req := calltest.Request(id, "act")
		req.PromptId, req.Profile, req.TurnId = "p1", "tight", "t"+id
		res := s.Call(req)
		if failed := i == 0 || i == 4; res.GetIsError() != failed || res.GetReplayed() != (i == 2) {
			t.Errorf("call %d: %v", i, res)
		}
	}
	validated := calltest.Request("5", "act")
	validated.PromptId, validated.Profile, validated.ValidateOnly = "p1", "tight", true
	s.Call(validated)
	for range 2 { // its answer may be lost
		ended, err := s.Prompts().EndPrompt(t.Context(), p, "budget_exceeded")
		if left := ended.GetBudget(); err != nil || left.GetToolCallsLimit() != 3 || left.GetToolCallsUsed() != 3 {
			t.Errorf("at the end: %v, %v", left, err)
		}
	}
	says(t, metrics(),
		`sidecall_prompt_calls_count{sidecall_profile="tight"} 1`, `sidecall_prompt_calls_sum{sidecall_profile="tight"} 4`,
		`sidecall_prompts_total{sidecall_exit="budget_exceeded"} 1`, `sidecall_refusals_total{sidecall_rule="budget_calls"} 1`,
		`sidecall_recoveries_total{sidecall_recovered="true"} 1`, `sidecall_recoveries_total{sidecall_recovered="false"} 0`,
		`sidecall_replays_total 1`)
	if line := `"msg":"prompt","conversation":"c1","prompt":"p1","exit":"budget_exceeded","calls":4,"errors":1,"recovered":1}`; strings.Count(log.String(), line) != 1 {
		t.Errorf("no line %s in\n%s", line, log)
	}
}

// Without limits, and without the store, a prompt ends as well.
func TestAPromptEndsWithoutABudget(t *testing.T) {
	s, metrics, _ := metered(t)
	if left, err := s.Prompts().EndPrompt(t.Context(), call.Prompt{Conversation: "c1"}, "end_turn"); left.GetBudget() != nil || left.GetEffectsIncomplete() || err != nil {
		t.Errorf("without limits: %v, %v", left, err)
	}
	s.With(func(p *call.Parts) { p.Dedupe = calltest.NewOn(t, brokenStore{}).Dedupe })
	if left, err := s.Prompts().EndPrompt(t.Context(), call.Prompt{Conversation: "c2", Choice: call.Choice{Profile: "tight"}}, ""); left.GetBudget() != nil || !left.GetEffectsIncomplete() || err != nil {
		t.Errorf("without the store: %v, %v", left, err)
	}
	says(t, metrics(), `sidecall_prompts_total{sidecall_exit="end_turn"} 1`, `sidecall_prompts_total{sidecall_exit="other"} 1`)
}

func TestPromptsThatCannotBe(t *testing.T) {
	s, metrics, _ := metered(t)
	long := strings.Repeat("x", 300)
	for says, p := range map[string]call.Prompt{
		"conversation_id: is required by the setting identity.require": {ID: "p1"},
		"prompt_id: 300 bytes, at most 256 are taken":                  {Conversation: "c1", ID: long},
		"conversation_id: 300 bytes, at most 256 are taken":            {Conversation: long},
		"prompt_id: is not valid UTF-8":                                {Conversation: "c1", ID: "\xff"},
		"profile: ":                                                    {Conversation: "c1", Choice: call.Choice{Profile: "none"}},
		"profile: the profile":                                         {Conversation: "c1", Choice: call.Choice{Profile: "narrow", Offered: []string{"tight"}}},
	} {
		_, begun := s.Prompts().StartPrompt(t.Context(), p)
		_, ended := s.Prompts().EndPrompt(t.Context(), p, "end_turn")
		for _, err := range []error{begun, ended} {
			if fault, ok := errors.AsType[*call.Fault](err); !ok || fault.Kind != call.Invalid || !strings.HasPrefix(fault.Message, says) {
				t.Errorf("%v, want %s", err, says)
			}
		}
	}
	if _, err := s.Prompts().EndPrompt(t.Context(), call.Prompt{Conversation: "c1"}, long); err == nil || !strings.HasPrefix(err.Error(), "exit_reason: ") {
		t.Errorf("a long reason: %v", err)
	}
	s.Limit(func(l *catalog.Limits) { l.RequireIDs = nil })
	if _, err := s.Prompts().EndPrompt(t.Context(), call.Prompt{}, "end_turn"); err == nil || !strings.HasPrefix(err.Error(), "conversation_id: ") {
		t.Errorf("no ids at all: %v", err)
	}
	if strings.Contains(lines(metrics(), "sidecall_prompts_total"), "} 1") {
		t.Error("one of them was counted")
	}
}

// Another tenant's prompt of the same name is another one, with a budget of its own.
func TestPromptsOfAnotherTenant(t *testing.T) {
	s, metrics, _ := metered(t, calltest.NewRoute(t, "act", tool.NonIdempotent, calltest.Answers("ok")))
	req := calltest.Request("1", "act")
	req.Profile = "tight"
	if res := s.Execute(t.Context(), call.NewRequest("me", req)); res.GetIsError() {
		t.Fatal(res)
	}
	for tenant, used := range map[string]int64{"they": 0, "me": 1} {
		ended, err := s.Prompts().EndPrompt(t.Context(), call.Prompt{Tenant: tenant, Conversation: "c1", Choice: call.Choice{Profile: "tight"}}, "end_turn")
		if err != nil || ended.GetBudget().GetToolCallsUsed() != used {
			t.Errorf("%s: %v, %v, want %d used", tenant, ended, err, used)
		}
	}
	says(t, metrics(), `sidecall_prompt_calls_count{sidecall_profile="tight"} 1`, `sidecall_prompts_total{sidecall_exit="end_turn"} 2`)
}

// Every kind of refusal is counted by the rule that made it, and what was sent is none.
func TestRefusalsAreCountedByTheirRules(t *testing.T) {
	routes := []*catalog.Route{
		calltest.NewRoute(t, "browse", tool.ReadOnly, calltest.Answers("pay"), func(r *catalog.Route) { r.Tool.Policy.Untrusted = true }),
		calltest.NewRoute(t, "pay", tool.NonIdempotent, calltest.Answers("paid"), func(r *catalog.Route) { r.Tool.Policy.RefuseTainted = true }),
		calltest.NewRoute(t, "changed", tool.ReadOnly, calltest.Answers("never"), func(r *catalog.Route) { r.Refused = "it changed" }),
		calltest.NewRoute(t, "down", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.Refused), calltest.WithBreaker(1)),
		calltest.NewRoute(t, "denies", tool.ReadOnly, calltest.Fails(calltest.Always, tool.Failure{Code: tool.CodePermissionDenied, Evidence: tool.Definite})),
		calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("refunded"), byOrder()),
	}
	s, metrics, _ := metered(t)
	s.Limit(func(l *catalog.Limits) { l.Taints = true })
	s.Generation.Set(catalog.ConfigSource, routes)
	for i, c := range []struct {
		tool, profile, id string
		code              tool.Code
	}{
		{tool: "browse"},
		{tool: "pay", code: tool.CodePermissionDenied},
		{tool: "changed", code: tool.CodePermissionDenied},
		{tool: "pay", profile: "narrow", code: tool.CodePermissionDenied},
		{tool: "denies", code: tool.CodePermissionDenied},
		{tool: "down", code: tool.CodeDependencyUnavailable},
		{tool: "down", code: tool.CodeCircuitOpen},
		{tool: "denies", id: "0", code: tool.CodeIDReused},
		{tool: "misspelt", code: tool.CodeUnknownTool},
		{tool: "refund"},
		{tool: "refund", code: tool.CodeDuplicateEffect},
	} {
		req := calltest.Request(cmp.Or(c.id, fmt.Sprint(i)), c.tool)
		req.Profile, req.ArgumentsJson = c.profile, aPayment
		if res := s.Call(req); calltest.Code(res) != c.code {
			t.Errorf("%s: %v, want %s", c.tool, res, c.code)
		}
	}
	var counted []string
	for line := range strings.Lines(lines(metrics(), "sidecall_refusals_total")) {
		if line = strings.TrimSpace(line); !strings.HasSuffix(line, " 0") {
			counted = append(counted, line)
		}
	}
	want := make([]string, 0, 6)
	for _, rule := range []string{"breaker", "definition", "effect_duplicate", "id_reused", "profile", "taint"} {
		want = append(want, fmt.Sprintf(`sidecall_refusals_total{sidecall_rule=%q} 1`, rule))
	}
	if !slices.Equal(counted, want) {
		t.Errorf("refusals %q, want %q", counted, want)
	}
}
