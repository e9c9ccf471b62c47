//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// targeted are the tools of a till, with act about an order.
func targeted(up till, store string) string {
	return guarded + strings.Replace(up.tools(store), "act: {", `act: {recovery: {target: [order_id], rules: [{pattern: "no such", suggest: ["Call {look} first.", "Call {gone} first."]}]}, `, 1)
}

// about is a call about an order.
func about(id, toolName, arguments string) *sidecallv1.ExecuteToolRequest {
	req := prompted(id)
	req.ToolName, req.ArgumentsJson = toolName, arguments
	return req
}

func wantContext(t *testing.T, when string, res *sidecallv1.ExecuteToolResponse, wants ...string) {
	t.Helper()
	context := res.GetRecovery().GetContext()
	for _, want := range wants {
		if !strings.Contains(context, want) {
			t.Errorf("%s: want %q in\n%s", when, want, context)
		}
	}
	if context == "" || strings.Contains(context, "gone") {
		t.Errorf("%s: %v", when, res)
	}
}

// The second attempt is told of the first, whether the sidecar was killed in between:
// of calls that failed, and of calls that were refused. A replay says what it said.
func TestTheSecondAttemptIsToldOfTheFirst(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		up.Script("/act", upstream.StatusBody(http.StatusNotFound, "no such order"))
		s := harness.Start(t, targeted(up, store))
		first := s.Call(about("first", "act", `{"order_id":"A-1","note":"a"}`))
		wantContext(t, "the first", first, `Operation: act on "A-1"`, "no such order", "Not tried yet:\n  - Call look first.")
		refused := s.Call(about("refused", "look", `{"kex":1}`))
		if code(refused) != "INVALID_ARGS" || strings.Contains(refused.GetRecovery().GetContext(), "Earlier") {
			t.Errorf("arguments that are refused: %v", refused)
		}
		wantContext(t, "refused", refused, "Operation: look\nError: INVALID_ARGS")
		s.Kill()
		s.Run()
		second := s.Call(about("second", "act", `{"order_id":"A-1","note":"b"}`))
		wantContext(t, "the second", second, "in this conversation: 1\n  1. the same error, ", `with note "a" (now "b")`)
		wantContext(t, "refused again", s.Call(about("refused again", "look", `{"kex":2}`)), "in this conversation: 1\n  1. ", "with kex 1 (now 2)")
		elsewhere := s.Call(about("elsewhere", "act", `{"order_id":"A-2"}`))
		if strings.Contains(elsewhere.GetRecovery().GetContext(), "Earlier") {
			t.Errorf("another order: %s", elsewhere.GetRecovery().GetContext())
		}
		again := s.Call(about("first", "act", `{"order_id":"A-1","note":"a"}`))
		if !again.GetReplayed() || again.GetRecovery().GetContext() != first.GetRecovery().GetContext() {
			t.Errorf("the first, replayed: %v", again)
		}
	})
}

// It does not matter which sidecar made the first one.
func TestAttemptsAreKnownToEverySidecar(t *testing.T) {
	t.Parallel()
	up := startTill(t)
	up.Script("/act", upstream.StatusBody(http.StatusNotFound, "no such order"))
	config := targeted(up, fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", harness.Redis(t)))
	one, two := harness.Start(t, "instance: one\n"+config), harness.Start(t, "instance: two\n"+config)
	one.Call(about("first", "act", `{"order_id":"A-1"}`))
	wantContext(t, "the second", two.Call(about("second", "act", `{"order_id":"A-1","note":"b"}`)), "conversation: 1\n  1. the same error, ", "with no note")
	wantContext(t, "the third", one.Call(about("third", "act", `{"order_id":"A-1"}`)), "conversation: 2\n", "  2. the same error, ", `with note "b" (now left out)`)
}
