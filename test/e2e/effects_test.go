//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// payments is a config with the tool act, whose calls are the same by key.
func payments(store, url string) string {
	return store + fmt.Sprintf(`backends:
  up: {http: {base_url: %q, allow_private: true}}
tools:
  look: {backend: up, description: Looks., http: {method: GET, path: /look}, input_schema: {type: object, properties: {key: {type: string}}, required: [key]}}
  act:
    backend: up
    description: Pays.
    http: {method: POST, path: /act, query: {key: key}}
    input_schema: {type: object, properties: {key: {type: string}, note: {type: string}}, required: [key]}
    effect_key: {args: [key], window: 24h}
    verify_with: look
`, url)
}

// payment is a call of act for a key, in a conversation.
func payment(id, key string) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: "act", ConversationId: "c-1", ArgumentsJson: fmt.Sprintf(`{"key":%q,"note":%q}`, key, id)}
}

// A payment under a new id is refused, with what became of the first one: also by the
// next process, also when that was killed in the middle of it. Who is asked may have
// it once more.
func TestAPaymentUnderANewID(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		s := harness.Start(t, payments(store, up.URL))
		up.Script("/act", upstream.Echo())
		first := s.Call(payment("toolu_1", "A-1"))
		if first.GetIsError() {
			t.Fatalf("the first: %v", first)
		}
		refused := func(when string) {
			t.Helper()
			res := s.Call(payment("toolu_2", "A-1"))
			if code(res) != "DUPLICATE_EFFECT" || res.GetEarlier().GetToolUseId() != "toolu_1" || res.GetError().GetReceived() == "" ||
				!res.GetEarlier().GetFinishedAt().IsValid() || res.GetRecovery().GetAttempts() != 0 {
				t.Errorf("%s: %v", when, res)
			}
		}
		refused("at once")
		s.Kill()
		s.Run()
		refused("after a kill")
		if n := up.Ledger.Executions("A-1"); n != 1 {
			t.Errorf("paid %d times", n)
		}
		again := payment("toolu_3", "A-1")
		again.AllowDuplicateEffect = true
		if res := s.Call(again); res.GetIsError() {
			t.Errorf("allowed: %v", res)
		}
		if res := s.Call(payment("toolu_4", "A-1")); code(res) != "DUPLICATE_EFFECT" || res.GetEarlier().GetToolUseId() != "toolu_3" {
			t.Errorf("after that: %v", res)
		}
		if n := up.Ledger.Executions("A-1"); n != 2 {
			t.Errorf("paid %d times, once of which was allowed", n)
		}
	})
}

// Killed in the middle of a payment: nobody knows, and a new id is told so until
// somebody does.
func TestAPaymentUnderANewIDAfterAKillInTheMiddle(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		g := startGate(t)
		s := harness.Start(t, payments(store, g.URL))
		go func() { _, _ = execute(t, s, payment("toolu_1", "A-1")) }()
		<-g.arrived
		s.Kill()
		s.Run()
		close(g.open)
		res := s.Call(payment("toolu_2", "A-1"))
		if code(res) != "OUTCOME_UNKNOWN" || res.GetEarlier().GetToolUseId() != "toolu_1" || fmt.Sprint(res.GetRecovery().GetAllowedAlternatives()) != "[look]" {
			t.Errorf("under a new id: %v", res)
		}
		if n := g.effects.Load(); n != 1 {
			t.Errorf("paid %d times", n)
		}
		s.Call(payment("toolu_1", "A-1")) // whoever meets it first finds it unknown
		resolve(t, s, 0, "--id", "toolu_1", "--conversation", "c-1", "--as", "not_run", "--reason", "no trace of it", "--yes")
		if res := s.Call(payment("toolu_2", "A-1")); res.GetIsError() {
			t.Errorf("of what did not run: %v", res)
		}
		if res := s.Call(payment("toolu_1", "A-1")); code(res) != "DUPLICATE_EFFECT" || res.GetEarlier().GetToolUseId() != "toolu_2" {
			t.Errorf("and then under the first id: %v", res)
		}
		if n := g.effects.Load(); n != 2 {
			t.Errorf("%d effects: one that somebody has said not to be, and one", n)
		}
	})
}
