package app

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// A payment that is answered 429 has not been made: it is sent again, and where that is
// in vain, or would take too long, its id is free to be sent later.
func TestTooManyRequestsMeansThatNothingWasDone(t *testing.T) {
	for _, store := range []string{"memory: {}", fmt.Sprintf("embedded: {path: %q}", filepath.Join(t.TempDir(), "calls"))} {
		kind, _, _ := strings.Cut(store, ":")
		t.Run(kind, func(t *testing.T) {
			ledger := upstream.NewLedger()
			shop := upstream.New(ledger)
			shop.Script("/once", upstream.Status(429), upstream.Echo())
			shop.Script("/thrice", append(upstream.Status(429).Times(3), upstream.Echo())...)
			shop.Script("/later", upstream.RateLimited("3600"), upstream.Echo())
			shop.Script("/doubtful", upstream.Status(429), upstream.Echo())
			shop.Script("/busy", upstream.Status(503), upstream.Echo())
			shop.Script("/polite", upstream.Status(503), upstream.Echo())
			served, err := upstream.Start(shop, "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = served.Close() })
			socket := filepath.Join(harness.ShortDir(t), "s.sock")
			s := started(t, parsed(t, fmt.Sprintf(`
listen: [%q]
admin: off
store: {%s}
defaults: {retry: {base: 1ms}}
backends: {shop: {http: {base_url: %q, allow_private: true}}}
tools:
  once: {backend: shop, http: {method: POST, path: /once}}
  thrice: {backend: shop, http: {method: POST, path: /thrice}}
  later: {backend: shop, http: {method: POST, path: /later}}
  doubtful: {backend: shop, http: {method: POST, path: /doubtful}, rejects_before_work: []}
  busy: {backend: shop, http: {method: POST, path: /busy}}
  polite: {backend: shop, http: {method: POST, path: /polite}, rejects_before_work: [503]}
`, "unix://"+socket, store, served.URL)), quiet())
			t.Cleanup(func() {
				if err := s.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			})
			client := dialled(t, socket)
			call := func(name string) *sidecallv1.ExecuteToolResponse {
				t.Helper()
				res, err := client.ExecuteTool(t.Context(), &sidecallv1.ExecuteToolRequest{ToolUseId: "toolu_" + name, ConversationId: "c", ToolName: name})
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			for _, step := range []struct {
				tool, code string
				attempts   int32
			}{
				{"once", "", 0},
				{"thrice", "RATE_LIMITED", 3},
				{"thrice", "", 0}, // the same id
				{"later", "RATE_LIMITED", 1},
				{"later", "", 0}, // the same id
				{"doubtful", "OUTCOME_UNKNOWN", 1},
				{"doubtful", "OUTCOME_UNKNOWN", 1},
				{"busy", "OUTCOME_UNKNOWN", 1},
				{"polite", "", 0},
			} {
				res := call(step.tool)
				if res.GetError().GetCode() != step.code || res.GetRecovery().GetAttempts() != step.attempts {
					t.Errorf("%s: %v, want %q", step.tool, res, step.code)
				}
				wait := res.GetRecovery().GetRetryAfter().AsDuration()
				if step.tool == "later" && step.code != "" && (wait < 59*time.Minute || !strings.Contains(res.GetError().GetHint(), "after 1h")) {
					t.Errorf("to be asked after %v: %s", wait, res.GetContent())
				}
				if step.code == "RATE_LIMITED" && (!res.GetRecovery().GetRetryable() || strings.Contains(res.GetError().GetHint(), "may have")) {
					t.Errorf("%s: not told as what was not done: %v", step.tool, res)
				}
			}
			if n := ledger.Total(); n != 4 {
				t.Errorf("%d effects, want those of once, thrice, later and polite", n)
			}
		})
	}
}
