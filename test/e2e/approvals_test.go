//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// asking has refund, before which a person is asked of large sums, brief, of which nobody answers
// in time, and refuse, of which a person is asked when it has failed twice.
func (u till) asking(store string) string {
	const schema = `input_schema: {type: object, properties: {key: {type: string}, cents: {type: integer}, card: {type: string}}, required: [key, cents]}`
	return store + fmt.Sprintf(`lease: 2s
backends:
  up: {http: {base_url: %q, allow_private: true}, breaker: {failures: 1000000}}
tools:
  refund: {backend: up, description: Refunds., http: {method: POST, path: /refund, query: {key: key}}, sensitive_args: [card], approve_when: "args.cents > 100000", %[2]s}
  brief: {backend: up, description: Refunds., http: {method: POST, path: /refund, query: {key: key}}, approve_when: always, approval_ttl: 1s, %[2]s}
  refuse: {backend: up, description: Refuses., http: {method: POST, path: /refuse, query: {key: key}}, require_confirmation_after: 2, %[2]s}
`, u.URL, schema)
}

// refunding is a call of a tool that asks.
func refunding(tool, id string) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{
		ToolUseId: id, ToolName: tool, ConversationId: "c1", PromptId: "p1",
		ArgumentsJson: fmt.Sprintf(`{"key":%q,"cents":100001,"card":"4111"}`, id),
	}
}

// approvals runs sidecall approvals and wants an exit code.
func approvals(t *testing.T, s *harness.Sidecar, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := harness.CLI(t, append([]string{"approvals", args[0], "--addr", s.Operator}, args[1:]...)...)
	if code != wantCode {
		t.Fatalf("sidecall approvals %q: exit code %d, want %d\n%s%s", args, code, wantCode, stdout, stderr)
	}
	return stdout, stderr
}

// decide runs sidecall approvals approve or deny of a call.
func decide(t *testing.T, s *harness.Sidecar, wantCode int, verb, id string) (stdout, stderr string) {
	t.Helper()
	return approvals(t, s, wantCode, verb, "--conversation", "c1", "--id", id, "--as", "ada", "--reason", "asked the customer", "--yes")
}

func wantHeld(t *testing.T, res *sidecallv1.ExecuteToolResponse) {
	t.Helper()
	if res.GetError().GetCode() != "APPROVAL_REQUIRED" || res.GetHold() == nil {
		t.Fatalf("it is not held: %v", res)
	}
}

// A person sees what is asked, allows it, and the same id runs once: also when the sidecar was
// killed between the answer and the call.
func TestApproved(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, up.asking(store))
		small := refunding("refund", "small")
		small.ArgumentsJson = `{"key":"small","cents":100000}`
		if res := s.Call(small); res.GetIsError() {
			t.Fatalf("of a small one nobody is asked: %v", res)
		}
		wantHeld(t, s.Call(refunding("refund", "large")))
		out, _ := approvals(t, s, 0, "list", "--json")
		var shown []map[string]any
		if err := json.Unmarshal([]byte(out), &shown); err != nil || len(shown) != 1 || !strings.Contains(out, `\"cents\":100001`) || strings.Contains(out, "4111") {
			t.Fatalf("%v in %s", err, out)
		}
		out, _ = decide(t, s, 0, "approve", "large")
		if !strings.Contains(out, "large is allowed, until ") {
			t.Errorf("it says %q", out)
		}
		if n := up.Ledger.Executions("large"); n != 0 {
			t.Fatalf("it was executed %d times before it was sent again", n)
		}
		s.Kill()
		s.Run()
		res := s.Call(refunding("refund", "large"))
		if res.GetIsError() || res.GetReplayed() || res.GetApproval().GetClaimedBy() != "ada" || res.GetApproval().GetBy() != me(t) {
			t.Fatalf("it runs: %v", res)
		}
		if again := s.Call(refunding("refund", "large")); !again.GetReplayed() || again.GetContent() != res.GetContent() || again.GetApproval().GetReason() != "asked the customer" {
			t.Errorf("sent again: %v", again)
		}
		if n := up.Ledger.Executions("large"); n != 1 {
			t.Errorf("it was executed %d times", n)
		}
		if _, stderr := decide(t, s, 1, "deny", "large"); !strings.Contains(stderr, "is done already") {
			t.Errorf("denied after it ran: %s", stderr)
		}
	})
}

// What is denied is denied for good, and its model is told by whom and why.
func TestDenied(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, up.asking(store))
		wantHeld(t, s.Call(refunding("refund", "large")))
		decide(t, s, 0, "deny", "large")
		for range 2 {
			res := s.Call(refunding("refund", "large"))
			if res.GetError().GetCode() != "PERMISSION_DENIED" || !strings.Contains(res.GetContent(), "denied by ada") || !strings.Contains(res.GetContent(), "asked the customer") {
				t.Fatalf("%v", res)
			}
		}
		if _, stderr := decide(t, s, 1, "approve", "large"); !strings.Contains(stderr, "is done already") {
			t.Errorf("approved after it was denied: %s", stderr)
		}
		if n := up.Ledger.Executions("large"); n != 0 {
			t.Errorf("it was executed %d times", n)
		}
	})
}

// What was allowed is allowed for the arguments that were seen.
func TestApprovedWithOtherArguments(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, up.asking(store))
		wantHeld(t, s.Call(refunding("refund", "large")))
		decide(t, s, 0, "approve", "large")
		changed := refunding("refund", "large")
		changed.ArgumentsJson = `{"key":"large","cents":99999999}`
		if res := s.Call(changed); res.GetError().GetCode() != "ID_REUSED" {
			t.Fatalf("under its id: %v", res)
		}
		if n := up.Ledger.Executions("large"); n != 0 {
			t.Fatalf("it was executed %d times", n)
		}
		if res := s.Call(refunding("refund", "large")); res.GetIsError() || up.Ledger.Executions("large") != 1 {
			t.Errorf("as it was seen: %v", res)
		}
	})
}

// A hold that nobody has answered in time is over: who answers then is told so, and the call is
// held anew when it is sent again.
func TestAHoldThatIsOver(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, up.asking(store))
		wantHeld(t, s.Call(refunding("brief", "late")))
		harness.WaitFor(t, "the hold is over", func() bool {
			out, _ := approvals(t, s, 0, "list", "--json")
			return strings.TrimSpace(out) == "[]"
		})
		if _, stderr := decide(t, s, 1, "approve", "late"); !strings.Contains(stderr, "is over: nothing was sent; sent again it is held anew") {
			t.Errorf("it says %s", stderr)
		}
		wantHeld(t, s.Call(refunding("brief", "late")))
		if n := up.Ledger.Executions("late"); n != 0 {
			t.Errorf("it was executed %d times", n)
		}
	})
}

// A tool that has failed twice in a prompt is called once more only when a person has allowed it.
func TestConfirmedAfterFailures(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		up.Script("/refuse", upstream.Status(http.StatusUnprocessableEntity).Times(10)...)
		s := harness.Start(t, up.asking(store))
		for _, id := range []string{"first", "second"} {
			if res := s.Call(refunding("refuse", id)); res.GetError().GetCode() != "BUSINESS_RULE" {
				t.Fatalf("%s: %v", id, res)
			}
		}
		for range 2 {
			res := s.Call(refunding("refuse", "third"))
			wantHeld(t, res)
			if !strings.Contains(res.GetHold().GetReason(), "require_confirmation_after: 2") {
				t.Errorf("because of %q", res.GetHold().GetReason())
			}
		}
		decide(t, s, 0, "approve", "third")
		if res := s.Call(refunding("refuse", "third")); res.GetError().GetCode() != "BUSINESS_RULE" || res.GetApproval() == nil {
			t.Errorf("allowed: %v", res)
		}
	})
}

// One sidecar holds the call, a person allows it at another, and of all that then send it one runs
// it.
func TestApprovedAtAnotherSidecar(t *testing.T) {
	t.Parallel()
	up := startTill(t)
	config := up.asking(fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", harness.Redis(t)))
	sidecars := []*harness.Sidecar{harness.Start(t, config), harness.Start(t, config)}
	wantHeld(t, sidecars[0].Call(refunding("refund", "large")))
	wantHeld(t, sidecars[1].Call(refunding("refund", "large")))
	decide(t, sidecars[1], 0, "approve", "large")
	answers := make(chan *sidecallv1.ExecuteToolResponse, 8)
	for i := range cap(answers) {
		go func() { answers <- sidecars[i%2].Call(refunding("refund", "large")) }()
	}
	for range cap(answers) {
		if res := <-answers; res.GetIsError() || res.GetApproval() == nil {
			t.Errorf("%v", res)
		}
	}
	if n := up.Ledger.Executions("large"); n != 1 {
		t.Errorf("it was executed %d times", n)
	}
}

// Agents cannot allow their own calls.
func TestAgentsApproveNothing(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, startTill(t).asking(""))
	wantHeld(t, s.Call(refunding("refund", "large")))
	agent := sidecallv1.NewOperatorServiceClient(s.Conn)
	_, listed := agent.ListHeld(t.Context(), &sidecallv1.ListHeldRequest{})
	_, approved := agent.ApproveExecution(t.Context(), &sidecallv1.ApproveExecutionRequest{ConversationId: "c1", ToolUseId: "large", DecidedBy: "me", Reason: "please"})
	_, denied := agent.DenyExecution(t.Context(), &sidecallv1.DenyExecutionRequest{ConversationId: "c1", ToolUseId: "large", DecidedBy: "me", Reason: "please"})
	for what, err := range map[string]error{"list": listed, "approve": approved, "deny": denied} {
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantHeld(t, s.Call(refunding("refund", "large")))
}

// A loop whose conversation is kept ends where a call waits for a person, and another process goes
// on with it when somebody has allowed it: what was done in the same message is replayed, and what
// was held runs. Only then is any of it answered in the conversation.
func TestALoopGoesOnWithWhatWasAllowed(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, up.asking(store))
		const wants = `{"id":"msg_1","type":"message","role":"assistant","stop_reason":"tool_use","content":[` +
			`{"type":"tool_use","id":"small","name":"refund","input":{"key":"small","cents":5}},` +
			`{"type":"tool_use","id":"large","name":"refund","input":{"key":"large","cents":100001}}]}`
		const done = `{"id":"msg_2","type":"message","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"done"}]}`
		loop := func(says string, messages ...any) *sidecall.Loop {
			client, err := sidecall.Dial("tcp://" + s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			kept, err := client.Conversation(t.Context(), "c1", sidecall.Anthropic)
			if err != nil {
				t.Fatal(err)
			}
			ended, err := client.RunLoop(t.Context(), func(context.Context, []json.RawMessage) (any, error) { return says, nil }, messages, sidecall.LoopOptions{Keep: kept, MaxTurns: 1})
			if err != nil {
				t.Fatal(err)
			}
			return ended
		}
		first := loop(wants, map[string]string{"role": "user", "content": "refund both"})
		if first.ExitReason != "held" || len(first.Messages) != 2 || up.Ledger.Executions("small") != 1 {
			t.Fatalf("held: %+v", first)
		}
		if again := loop(done); again.ExitReason != "held" || len(again.Results) != 2 {
			t.Fatalf("nobody has allowed it yet: %+v", again)
		}
		approvals(t, s, 0, "approve", "--conversation", "c1", "--turn", "msg_1", "--id", "large", "--as", "ada", "--reason", "asked the customer", "--yes")
		if last := loop(done); last.ExitReason != "end_turn" || len(last.Messages) != 4 || last.PromptID != first.PromptID {
			t.Fatalf("allowed: %+v", last)
		}
		for _, id := range []string{"small", "large"} {
			if n := up.Ledger.Executions(id); n != 1 {
				t.Errorf("%s was executed %d times", id, n)
			}
		}
	})
}
