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

// refusedUnsent checks that nothing was sent, and that the model is told so.
func refusedUnsent(t *testing.T, res *sidecallv1.ExecuteToolResponse, code string) {
	t.Helper()
	fixedShape(t, res.GetToolUseId(), res)
	if res.GetError().GetCode() != code || res.GetRecovery().GetAttempts() != 0 || res.GetRecovery().GetRetryAfter().AsDuration() <= 0 {
		t.Errorf("got %v, want %s, no attempts, a time to wait", res, code)
	}
	if !strings.Contains(res.GetError().GetHint(), "Nothing was sent") {
		t.Errorf("the hint does not say that nothing was sent: %s", res.GetError().GetHint())
	}
}

func TestBadUpstreamBulkhead(t *testing.T) {
	t.Parallel()
	g := startGate(t)
	s := harness.Start(t, `
backends: {up: {http: {base_url: "`+g.URL+`", allow_private: true}, max_in_flight: 2}}
tools:
  act: {backend: up, http: {method: POST, path: /act}}
  narrow: {backend: up, max_in_flight: 1, http: {method: POST, path: /act}}
`)
	first := startSlow(t, s, g, "one")
	second := make(chan answered, 1)
	go func() {
		res, err := execute(t, s, &sidecallv1.ExecuteToolRequest{ToolUseId: "two", ToolName: "narrow"})
		second <- answered{res, err}
	}()
	<-g.arrived
	refusedUnsent(t, s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "three", ToolName: "act"}), "OVERLOADED")
	refusedUnsent(t, s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "four", ToolName: "narrow"}), "OVERLOADED")
	close(g.open)
	for _, waiting := range []<-chan answered{first, second} {
		if got := <-waiting; got.err != nil || got.res.GetIsError() {
			t.Errorf("a call in flight got %v, %v", got.res, got.err)
		}
	}
	// Nothing was done under this id, so the same id may run now.
	if res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "three", ToolName: "act"}); res.GetIsError() || res.GetReplayed() {
		t.Errorf("sent again with room: %v", res)
	}
	if n := g.effects.Load(); n != 3 {
		t.Errorf("%d executions, want 3", n)
	}
	lives(t, s)
}

func TestBadUpstreamOwnRateLimit(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	s := harness.Start(t, `
backends: {up: {http: {base_url: "`+up.URL+`", allow_private: true}, rate_limit: {per_second: 0.001, burst: 2}}}
tools: {act: {backend: up, deadline: 15m, http: {method: POST, path: /act}}}
`)
	for i := range 2 {
		if res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint("t", i), ToolName: "act"}); res.GetIsError() {
			t.Errorf("within the burst: %v", res)
		}
	}
	// The next token comes a while after the deadline in a quarter of an hour: who waits
	// for either does not answer while this test runs.
	refusedUnsent(t, s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t2", ToolName: "act"}), "RATE_LIMITED")
	if n := up.Ledger.Total(); n != 2 {
		t.Errorf("%d executions, want 2", n)
	}
	lives(t, s)
}

func TestBadUpstreamBreakerOpensAndRecovers(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	up.Script("/act", upstream.Status(http.StatusServiceUnavailable))
	s := harness.Start(t, `
backends: {up: {http: {base_url: "`+up.URL+`", allow_private: true}, breaker: {failures: 3, window: 1m, open_for: 8s}}}
tools:
  act: {backend: up, http: {method: POST, path: /act}}
  missing: {backend: up, http: {method: POST, path: /missing}}
`)
	up.Script("/missing", upstream.Status(http.StatusNotFound))
	for i := range 10 { // the caller's mistakes trip nothing
		s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint("m", i), ToolName: "missing"})
	}
	for i := range 3 {
		res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprint("t", i), ToolName: "act"})
		if res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
			t.Errorf("call %d: %v", i, res)
		}
	}
	refusedUnsent(t, s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "open", ToolName: "act"}), "CIRCUIT_OPEN")
	if n := up.Requests("/act"); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	// A replay touches neither the breaker nor the upstream.
	if res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t0", ToolName: "act"}); !res.GetReplayed() {
		t.Errorf("a replay while it is open: %v", res)
	}
	up.Script("/act")
	harness.WaitFor(t, "the breaker to close", func() bool {
		return !s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "open", ToolName: "act"}).GetIsError()
	})
	if n := up.Ledger.Total(); n != 1 {
		t.Errorf("%d executions, want 1", n)
	}
	lives(t, s)
}

func TestBadUpstreamThatIsNotThere(t *testing.T) {
	t.Parallel()
	nobody := "http://" + harness.FreePort(t)
	s := harness.Start(t, `
defaults: {retry: {base: 5ms}}
backends:
  up: {http: {base_url: "`+nobody+`", allow_private: true}, breaker: {failures: 100}}
  unnamed: {http: {base_url: "http://no-such-host.invalid", allow_private: true}, breaker: {failures: 100}}
  forbidden: {http: {base_url: "`+nobody+`"}, breaker: {failures: 100}}
  metadata: {http: {base_url: "http://169.254.169.254", allow_private: true}, breaker: {failures: 100}}
tools:
  act: {backend: up, http: {method: POST, path: /act}}
  resolve: {backend: unnamed, deadline: 5s, http: {method: POST, path: /act}}
  private: {backend: forbidden, http: {method: POST, path: /act}}
  metadata: {backend: metadata, http: {method: GET, path: /latest}}
`)
	for _, tool := range []string{"act", "resolve", "private", "metadata"} {
		res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: tool, ToolName: tool})
		fixedShape(t, tool, res)
		// Nothing can have happened, so it is never unknown, whatever the effect.
		if code := res.GetError().GetCode(); code == "OUTCOME_UNKNOWN" || code == "" {
			t.Errorf("%s: %v", tool, res)
		}
		if strings.Contains(res.GetContent(), strings.TrimPrefix(nobody, "http://")) || strings.Contains(res.GetContent(), "169.254") {
			t.Errorf("%s: the model is told an address: %s", tool, res.GetContent())
		}
	}
	lives(t, s)
}
