//go:build e2e

package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// answered is what a call that another goroutine made came to.
type answered struct {
	res *sidecallv1.ExecuteToolResponse
	err error
}

// startSlow makes a call of act and returns when it has reached the gate.
func startSlow(t *testing.T, s *harness.Sidecar, g *gate, id string) <-chan answered {
	t.Helper()
	result := make(chan answered, 1)
	go func() {
		res, err := execute(t, s, &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: "act"})
		result <- answered{res, err}
	}()
	<-g.arrived
	return result
}

// drains sends SIGTERM and returns when the sidecar says that it drains.
func drains(t *testing.T, s *harness.Sidecar) {
	t.Helper()
	s.Signal(syscall.SIGTERM)
	harness.WaitFor(t, "NOT_SERVING", func() bool {
		return healthOf(t, s, "") == healthpb.HealthCheckResponse_NOT_SERVING
	})
}

func TestServeDrainLosesNoCall(t *testing.T) {
	t.Parallel()
	g := startGate(t)
	s := harness.Start(t, oneTool(g.URL))
	slow := startSlow(t, s, g, "in-flight")
	drains(t, s)

	harness.WaitFor(t, "/readyz to say draining", func() bool {
		code, body := readyz(t, s)
		return code == http.StatusServiceUnavailable && body.Status == "draining"
	})
	_, err := execute(t, s, &sidecallv1.ExecuteToolRequest{ToolUseId: "late", ToolName: "act"})
	wantCode(t, err, codes.Unavailable, "nothing was started")
	_, err = s.Client.ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{
		Calls: []*sidecallv1.ExecuteToolRequest{{ToolUseId: "late", ToolName: "act"}},
	})
	wantCode(t, err, codes.Unavailable, "nothing was started")

	close(g.open)
	got := <-slow
	if got.err != nil || got.res.GetIsError() || !got.res.GetRecorded() || !strings.Contains(got.res.GetContent(), "done") {
		t.Errorf("the call in flight got %v, %v", got.res, got.err)
	}
	if code := s.Wait(); code != 0 {
		t.Errorf("exit code %d after a clean drain\n%s", code, s.Log())
	}
	if n := g.effects.Load(); n != 1 {
		t.Errorf("%d executions, want only the one in flight", n)
	}
}

// Somebody who watches the health of an idle sidecar does not keep it from
// ending: his stream has no end of its own.
func TestServeDrainDoesNotWaitForWatchers(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, oneTool("http://127.0.0.1:1"))
	watch, err := healthpb.NewHealthClient(s.Conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", first, err)
	}
	s.Signal(syscall.SIGTERM)
	// Who was waited for and has not left would be told of, and makes it another code.
	if code := s.Wait(); code != 0 || strings.Contains(s.Log(), "still in flight") {
		t.Errorf("exit code %d\n%s", code, s.Log())
	}
}

// The call that outlives the drain is cut off; that it may have happened is
// recorded, so that it does not happen again.
func TestServeDrainEnds(t *testing.T) {
	t.Parallel()
	g := startGate(t)
	s := harness.Start(t, oneTool(g.URL))
	slow := startSlow(t, s, g, "stuck")
	drains(t, s)
	if code := s.Wait(); code != 1 || !strings.Contains(s.Log(), "1 request still in flight") {
		t.Errorf("exit code %d, want 1 that says what was cut off\n%s", code, s.Log())
	}
	got := <-slow
	if got.err == nil && got.res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
		t.Errorf("the stuck call got %v", got.res)
	}

	s.Run()
	res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "stuck", ToolName: "act"})
	if res.GetError().GetCode() != "OUTCOME_UNKNOWN" || !res.GetReplayed() {
		t.Errorf("sent again it gets %v, want OUTCOME_UNKNOWN, replayed", res)
	}
	if n := g.effects.Load(); n != 1 {
		t.Errorf("%d executions, want 1", n)
	}
}

func TestServeSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	g := startGate(t)
	s := harness.Start(t, oneTool(g.URL))
	slow := startSlow(t, s, g, "cut")
	drains(t, s)
	s.Signal(syscall.SIGTERM)
	if code := s.Wait(); code == 0 {
		t.Error("exit code 0, though a call was cut off")
	}
	if got := <-slow; got.err == nil {
		t.Errorf("the call in flight got %v from a process that has ended", got.res)
	}

	s.Run()
	res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "cut", ToolName: "act"})
	if res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
		t.Errorf("after the restart it is %v, want OUTCOME_UNKNOWN", res)
	}
	if n := g.effects.Load(); n != 1 {
		t.Errorf("%d executions, want 1", n)
	}
}
