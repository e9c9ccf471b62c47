//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/recorded"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// guarded is a profile with the loop guard as it is by default, and no budget.
const guarded = "profiles: {code: {}}\ndefault_profile: code\n"

// A loop is found whichever sidecar makes its calls, and whether it was started anew
// in between.
func TestALoopIsFoundAcrossProcesses(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		up.Script("/act", upstream.StatusBody(http.StatusNotFound, "no such order"))
		s := harness.Start(t, guarded+up.tools(store))
		for n, want := range []string{"", "", "nudge", "refuse", "escalate", "escalate", "stop"} {
			if n == 2 {
				s.Kill()
				s.Run()
			}
			req := prompted(fmt.Sprint("again ", n))
			req.ArgumentsJson = `{"order_id":"A-1"}`
			res := s.Call(req)
			got := strings.ToLower(strings.TrimPrefix(res.GetLoop().GetLevel().String(), "LOOP_LEVEL_"))
			if want == "" && res.GetLoop() != nil || want != "" && got != want {
				t.Errorf("call %d: %v, want %q", n, res, want)
			}
			if refused := n >= 3; refused != (code(res) == "LOOP_DETECTED") || res.GetStop() != (want == "stop") {
				t.Errorf("call %d: %v", n, res)
			}
		}
		if n := up.Requests("/act"); n != 3 {
			t.Errorf("the backend was asked %d times, want 3", n)
		}
	})
}

// A sensitive tool is refused whichever sidecar has shown the untrusted output.
func TestTaintIsSharedAndSurvivesARestart(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		up.Script("/act", upstream.Echo())
		s := harness.Start(t, guarded+strings.Replace(up.tools(store), "act: {", "act: {sensitive: true, ", 1)+
			"  browse: {backend: up, trust: untrusted, effect: read_only, http: {method: POST, path: /browse}}\n")
		up.Script("/browse", upstream.Echo())
		if res := s.Call(prompted("before")); res.GetIsError() {
			t.Fatal(res)
		}
		read := prompted("read")
		read.ToolName = "browse"
		if res := s.Call(read); res.GetIsError() {
			t.Fatal(res)
		}
		s.Kill()
		s.Run()
		if res := s.Call(prompted("after")); code(res) != "PERMISSION_DENIED" {
			t.Errorf("after untrusted output: %v", res)
		}
		next := prompted("next")
		next.PromptId = "p-2"
		if res := s.Call(next); res.GetIsError() {
			t.Errorf("the next prompt: %v", res)
		}
	})
}

// The recorded runs, made again by a running sidecar whose tools answer as they did
// then: no call of a run that succeeded is refused.
func TestRecordedRunsThroughASidecar(t *testing.T) {
	t.Parallel()
	runs := recorded.Airline(t)
	reads := []string{"get_user_details", "get_reservation_details", "list_all_airports", "search_direct_flight", "search_onestop_flight", "calculate", "think"}
	tools := map[string]bool{}
	for _, run := range runs {
		for _, prompt := range run.Prompts {
			for _, c := range prompt {
				tools[c.Tool] = true
			}
		}
	}
	var status int
	var answer string // of the one call under way
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(up.Close)
	config := fmt.Sprintf("%sstore: {memory: {}}\nbackends: {up: {http: {base_url: %q, allow_private: true}, breaker: {failures: 1000000}}}\ntools:\n", guarded, up.URL)
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		effect := "non_idempotent"
		if slices.Contains(reads, name) {
			effect = "read_only"
		}
		config += fmt.Sprintf("  %s: {backend: up, effect: %s, http: {method: POST, path: /%s}}\n", name, effect, name)
	}
	s := harness.Start(t, config)
	type outcome struct{ nudged, refused int }
	fired := map[string]map[bool]*outcome{}
	calls := 0
	for r, run := range runs {
		for p, prompt := range run.Prompts {
			for i, c := range prompt {
				status, answer = http.StatusOK, c.Result
				if c.IsError {
					status = http.StatusUnprocessableEntity
				}
				res := s.Call(&sidecallv1.ExecuteToolRequest{
					ConversationId: fmt.Sprint("run ", r), TurnId: fmt.Sprint(p, " ", i), PromptId: fmt.Sprint(p),
					ToolUseId: "call", ToolName: c.Tool, ArgumentsJson: c.Arguments,
				})
				calls++
				refused := code(res) == "LOOP_DETECTED"
				if refused && run.Succeeded {
					t.Errorf("task %d, trial %d, prompt %d, call %d, of a run that succeeded: %v", run.Task, run.Trial, p, i, res)
				}
				if !refused && res.GetIsError() != c.IsError {
					t.Errorf("task %d, trial %d, prompt %d, call %d: %v, recorded as %q", run.Task, run.Trial, p, i, res, c.Result)
				}
				if rule := res.GetLoop().GetRule(); rule != "" {
					if fired[rule] == nil {
						fired[rule] = map[bool]*outcome{false: {}, true: {}}
					}
					if refused {
						fired[rule][run.Succeeded].refused++
					} else {
						fired[rule][run.Succeeded].nudged++
					}
				}
			}
		}
	}
	t.Logf("%d calls of %d runs", calls, len(runs))
	for rule, by := range fired {
		t.Logf("%s: in runs that failed %d nudged, %d refused; in runs that succeeded %d nudged, %d refused",
			rule, by[false].nudged, by[false].refused, by[true].nudged, by[true].refused)
	}
	if len(fired) != 1 || fired["same_call"] == nil || *fired["same_call"][false] != (outcome{nudged: 1}) {
		t.Errorf("the rules fire otherwise than internal/rules/loop/guard/testdata/rules.md has it: %v", fired)
	}
}
