//go:build e2e

package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

const fiveCalls = "profiles: {tight: {max_tool_calls: 5}}\ndefault_profile: tight\n"

// prompted is a call of one prompt.
func prompted(id string) *sidecallv1.ExecuteToolRequest {
	req := callOf(id)
	req.ConversationId, req.PromptId = "c-1", "p-1"
	return req
}

func code(res *sidecallv1.ExecuteToolResponse) string { return res.GetError().GetCode() }

// A budget outlives the process that counted it, and a call that nobody knows about
// is charged until somebody says that it did not run.
func TestABudgetSurvivesARestart(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, fiveCalls+up.tools(store))
		up.Script("/act", upstream.Echo())
		for i := range int64(3) {
			if res := s.Call(prompted(fmt.Sprint(i))); res.GetIsError() || res.GetBudget().GetToolCallsUsed() != i+1 {
				t.Fatalf("call %d: %v", i, res)
			}
		}
		up.Script("/act", upstream.CloseAfter())
		if res := s.Call(prompted("lost")); code(res) != "OUTCOME_UNKNOWN" || res.GetBudget().GetToolCallsUsed() != 4 {
			t.Fatalf("a call of unknown outcome: %v", res)
		}
		up.Script("/act", upstream.Echo())
		s.Kill()
		s.Run()
		if res := s.Call(prompted("0")); !res.GetReplayed() || res.GetBudget().GetToolCallsUsed() != 4 {
			t.Errorf("a replay after the restart: %v", res)
		}
		if res := s.Call(prompted("last")); res.GetIsError() || res.GetBudget().GetToolCallsUsed() != 5 {
			t.Errorf("the last one: %v", res)
		}
		if res := s.Call(prompted("beyond")); code(res) != "BUDGET_EXCEEDED" {
			t.Errorf("beyond the ceiling: %v", res)
		}
		resolve(t, s, 0, "--id", "lost", "--conversation", "c-1", "--as", "not_run", "--reason", "no trace of it", "--yes")
		if res := s.Call(prompted("beyond")); res.GetIsError() || res.GetBudget().GetToolCallsUsed() != 5 {
			t.Errorf("in place of what did not run: %v", res)
		}
		if res := s.Call(prompted("further")); code(res) != "BUDGET_EXCEEDED" {
			t.Errorf("beyond the ceiling again: %v", res)
		}
	})
}

// Replicas share a budget: whatever they are asked at the same time, as many calls
// run as there may be.
func TestReplicasShareABudget(t *testing.T) {
	t.Parallel()
	up := startTill(t)
	up.Script("/act", upstream.Echo())
	config := fiveCalls + up.tools(fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", harness.Redis(t)))
	replicas := []*harness.Sidecar{harness.Start(t, "instance: one\n"+config), harness.Start(t, "instance: two\n"+config)}
	var ran atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			res, err := replicas[i%2].Client.ExecuteTool(t.Context(), prompted(fmt.Sprint(i)))
			switch {
			case err != nil:
				t.Error(err)
			case !res.GetIsError():
				ran.Add(1)
			case code(res) != "BUDGET_EXCEEDED":
				t.Errorf("got %v", res)
			}
		})
	}
	all.Wait()
	if ran.Load() != 5 {
		t.Errorf("%d calls ran, want 5", ran.Load())
	}
	batch := &sidecallv1.ExecuteToolsRequest{}
	for i := range 7 {
		req := prompted(fmt.Sprint("batch ", i))
		req.PromptId = "p-2"
		batch.Calls = append(batch.Calls, req)
	}
	res, err := replicas[0].Client.ExecuteTools(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]int{}
	for _, r := range res.GetResults() {
		codes[code(r)]++
	}
	if codes[""] != 5 || codes["BUDGET_EXCEEDED"] != 2 {
		t.Errorf("a batch of 7 within 5: %v", codes)
	}
}

// The profile that is there without being declared has the limits that it is
// documented with.
func TestTheBudgetOfAProfileThatIsBuiltIn(t *testing.T) {
	t.Parallel()
	up := startTill(t)
	up.Script("/act", upstream.Echo())
	s := harness.Start(t, "default_profile: interactive\n"+up.tools(""))
	for i := range 25 {
		if res := s.Call(prompted(fmt.Sprint(i))); res.GetIsError() {
			t.Fatalf("call %d: %v", i, res)
		}
	}
	res := s.Call(prompted("26"))
	if code(res) != "BUDGET_EXCEEDED" || res.GetError().GetConstraint() != "at most 25 tool calls per prompt" || res.GetBudget().GetTokensLimit() != 50_000 {
		t.Errorf("got %v", res)
	}
}
