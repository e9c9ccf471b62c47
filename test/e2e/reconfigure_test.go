//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// restart runs a sidecar anew with another config, on the store that it had.
func restart(t *testing.T, s *harness.Sidecar, config string) {
	t.Helper()
	s.Stop()
	text := fmt.Sprintf("listen: [tcp://%s]\nadmin: %s\noperator: %s\n%s", s.Addr, s.Admin, s.Operator, config)
	if err := os.WriteFile(s.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Run()
}

// profiled is payments with a profile.
func profiled(profile, store, url string) string {
	return "default_profile: p\nprofiles: {p: {" + profile + "}}\n" + payments(store, url)
}

// What a prompt has used is held against the limits of today: lowered below it they
// refuse, raised they go on, and without one nothing is refused.
func TestABudgetThatChangesUnderAPrompt(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		up.Script("/act", upstream.Echo())
		s := harness.Start(t, profiled("max_tool_calls: 3", store, up.URL))
		for n := range 3 {
			if res := s.Call(payment(fmt.Sprint(n), fmt.Sprint(n))); res.GetIsError() {
				t.Fatal(res)
			}
		}
		for n, step := range []struct {
			profile, code string
			used          int64
		}{
			{"max_tool_calls: 2", "BUDGET_EXCEEDED", 3}, {"max_tool_calls: 4", "", 4}, {"max_tool_calls: 0", "", 0},
			{"max_tool_calls: 4, max_tokens: 1", "BUDGET_EXCEEDED", 4}, {"max_tool_calls: 5", "", 5},
		} {
			restart(t, s, profiled(step.profile, store, up.URL))
			res := s.Call(payment(fmt.Sprint("then", n), fmt.Sprint("then", n)))
			if code(res) != step.code || res.GetBudget().GetToolCallsUsed() != step.used {
				t.Errorf("%s: %v", step.profile, res)
			}
			if res := s.Call(payment("0", "0")); !res.GetReplayed() || res.GetIsError() {
				t.Errorf("%s: a call that is done: %v", step.profile, res)
			}
		}
		gone := payment("0", "0")
		gone.Profile = "gone"
		if res := s.Call(gone); !res.GetReplayed() {
			t.Errorf("a call that is done, in a profile that is gone: %v", res)
		}
	})
}

// The loop guard remembers across its thresholds: those of today judge what was done.
func TestALoopGuardThatChangesUnderAPrompt(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		up.Script("/act", upstream.Status(404))
		s := harness.Start(t, profiled("loop_guard: {}", store, up.URL))
		n := 0
		next := func() *sidecallv1.ExecuteToolResponse {
			n++
			req := payment(fmt.Sprint("toolu_", n), "A-1")
			req.ArgumentsJson = `{"key":"A-1"}`
			return s.Call(req)
		}
		for range 3 {
			next()
		}
		polling := strings.Replace(profiled("", store, up.URL), "    effect_key", "    polling: true\n    effect_key", 1)
		for _, step := range []struct{ config, code string }{
			{profiled("loop_guard: {same_call: {refuse: 10}}", store, up.URL), "NOT_FOUND"},
			{profiled("", store, up.URL), "LOOP_DETECTED"},
			{profiled("loop_guard: {off: true}", store, up.URL), "NOT_FOUND"},
			{polling, "NOT_FOUND"},
			{profiled("loop_guard: {stop: 1}", store, up.URL), "LOOP_DETECTED"},
		} {
			restart(t, s, step.config)
			if res := next(); code(res) != step.code || res.GetStop() != strings.Contains(step.config, "stop: 1") {
				t.Errorf("%s\n%v", step.config, res)
			}
		}
	})
}

// What was paid stays paid where its effect_key is taken away and given back, and where
// its tool may be repeated now, or is renamed.
func TestAnEffectKeyThatChangesUnderAConversation(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		up.Script("/act", upstream.Echo())
		config := profiled("loop_guard: {off: true}", store, up.URL)
		changed := func(from, to string) string {
			t.Helper()
			if !strings.Contains(config, from) {
				t.Fatalf("no %q in the config", from)
			}
			return strings.Replace(config, from, to, 1)
		}
		s := harness.Start(t, config)
		if res := s.Call(payment("paid", "A-1")); res.GetIsError() {
			t.Fatal(res)
		}
		up.Script("/act", upstream.CloseAfter())
		if res := s.Call(payment("lost", "A-2")); code(res) != "OUTCOME_UNKNOWN" {
			t.Fatal(res)
		}
		up.Script("/act", upstream.Echo())
		restart(t, s, changed("    effect_key: {args: [key], window: 24h}\n", ""))
		if res := s.Call(payment("lost", "A-2")); code(res) != "OUTCOME_UNKNOWN" {
			t.Errorf("without an effect_key: %v", res)
		}
		for n, with := range []string{config, changed("effect_key", "effect: idempotent\n    effect_key")} {
			restart(t, s, with)
			if res := s.Call(payment(fmt.Sprint("a", n), "A-1")); code(res) != "DUPLICATE_EFFECT" || res.GetEarlier().GetToolUseId() != "paid" {
				t.Errorf("%d: what was paid: %v", n, res)
			}
			if res := s.Call(payment(fmt.Sprint("b", n), "A-2")); code(res) != "OUTCOME_UNKNOWN" || res.GetEarlier().GetToolUseId() != "lost" {
				t.Errorf("%d: what may have been paid: %v", n, res)
			}
		}
		restart(t, s, changed("  act:\n", "  pay:\n"))
		if res := s.Call(payment("paid", "A-1")); !res.GetReplayed() || res.GetIsError() {
			t.Errorf("of a tool that was renamed: %v", res)
		}
		if res := s.Call(payment("lost", "A-2")); code(res) != "OUTCOME_UNKNOWN" {
			t.Errorf("of a tool that was renamed: %v", res)
		}
		if paid, lost := up.Ledger.Executions("A-1"), up.Ledger.Executions("A-2"); paid != 1 || lost != 1 {
			t.Errorf("paid %d and %d times", paid, lost)
		}
	})
}
