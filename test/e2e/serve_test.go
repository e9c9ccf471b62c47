//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// startUpstream runs an upstream that misbehaves as it is told, until the end
// of the test.
func startUpstream(t *testing.T) *upstream.Server {
	t.Helper()
	s, err := upstream.Start(upstream.New(upstream.NewLedger()), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// gate is an upstream that does its work at once and answers when it is opened.
type gate struct {
	URL     string
	arrived chan struct{}
	open    chan struct{}
	effects atomic.Int64
}

func startGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{arrived: make(chan struct{}, 100), open: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a client that left is seen below
		g.effects.Add(1)
		g.arrived <- struct{}{}
		select {
		case <-g.open:
			_, _ = io.WriteString(w, `{"done":true}`)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	g.URL = server.URL
	return g
}

// oneTool is a config with one non-idempotent tool, act, at url.
func oneTool(url string) string {
	return fmt.Sprintf(`
backends:
  up: {http: {base_url: %q, allow_private: true}}
tools:
  act: {backend: up, description: Does it., http: {method: POST, path: /act}}
`, url)
}

// healthOf asks grpc.health.v1; UNKNOWN stands for no answer.
func healthOf(t *testing.T, s *harness.Sidecar, service string) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	res, err := healthpb.NewHealthClient(s.Conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		return healthpb.HealthCheckResponse_UNKNOWN
	}
	return res.GetStatus()
}

// lives checks that the sidecar still serves: the end of every story about
// what it has to bear.
func lives(t *testing.T, s *harness.Sidecar) {
	t.Helper()
	if got := healthOf(t, s, ""); got != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health = %s, want SERVING\n%s", got, s.Log())
	}
	if strings.Contains(s.Log(), "goroutine ") || strings.Contains(s.Log(), "panic") {
		t.Errorf("it panicked:\n%s", s.Log())
	}
}

// execute makes a call that may fail as an rpc.
func execute(t *testing.T, s *harness.Sidecar, req *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return s.Client.ExecuteTool(ctx, req)
}

func wantCode(t *testing.T, err error, want codes.Code, says ...string) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("status = %s (%v), want %s", got, err, want)
	}
	for _, word := range says {
		if !strings.Contains(status.Convert(err).Message(), word) {
			t.Errorf("message %q does not say %q", status.Convert(err).Message(), word)
		}
	}
}

func TestServeHealthAndReflection(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, oneTool("http://127.0.0.1:1"))
	for _, service := range []string{"", "sidecall.v1.ToolService"} {
		if got := healthOf(t, s, service); got != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of %q = %s, want SERVING", service, got)
		}
	}
	stream, err := reflectionpb.NewServerReflectionClient(s.Conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{ListServices: "*"},
	}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for _, service := range answer.GetListServicesResponse().GetService() {
		services = append(services, service.GetName())
	}
	for _, want := range []string{"sidecall.v1.ToolService", "sidecall.v1.ConversationService", "grpc.health.v1.Health"} {
		if !slices.Contains(services, want) {
			t.Errorf("reflection lists %v, without %s", services, want)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

func TestServeRefusesWhatOnlyTheProgramCanCorrect(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	s := harness.Start(t, "limits: {max_request_bytes: 64KiB}"+oneTool(up.URL))
	for name, c := range map[string]struct {
		req  *sidecallv1.ExecuteToolRequest
		want codes.Code
		says string
	}{
		"no tool_use_id": {&sidecallv1.ExecuteToolRequest{ToolName: "act"}, codes.InvalidArgument, "tool_use_id"},
		"a request that is too large": {
			&sidecallv1.ExecuteToolRequest{ToolName: "act", ToolUseId: "t2", ArgumentsJson: `{"a":"` + strings.Repeat("x", 65<<10) + `"}`},
			codes.ResourceExhausted, "limits.max_request_bytes",
		},
		"a request that is much too large": {
			&sidecallv1.ExecuteToolRequest{ToolName: "act", ToolUseId: "t3", ArgumentsJson: `{"a":"` + strings.Repeat("x", 2<<20) + `"}`},
			codes.ResourceExhausted, "limits.max_request_bytes",
		},
	} {
		_, err := execute(t, s, c.req)
		if status.Code(err) != c.want || !strings.Contains(status.Convert(err).Message(), c.says) {
			t.Errorf("%s: %v, want %s that says %q", name, err, c.want, c.says)
		}
	}
	// What a model makes up is a result.
	wantError(t, s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1"}), "UNKNOWN_TOOL")
	wantError(t, s.Call(&sidecallv1.ExecuteToolRequest{ToolName: "act", ToolUseId: strings.Repeat("x", 300)}), "INVALID_ARGS")
	if n := up.Ledger.Total(); n != 0 {
		t.Errorf("%d executions of refused requests", n)
	}
	lives(t, s)
}

// Two agents that say nothing of themselves both send call_0. The second must not
// be told that its refund has happened: by default neither is taken.
func TestServeRequiresIdentity(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	s := harness.Start(t, "identity: {}"+oneTool(up.URL))
	agent := func(conversation, order string) *sidecallv1.ExecuteToolRequest {
		return &sidecallv1.ExecuteToolRequest{ToolUseId: "call_0", ToolName: "act", ConversationId: conversation, ArgumentsJson: fmt.Sprintf(`{"key":%q}`, order)}
	}
	_, err := execute(t, s, agent("", "one"))
	wantCode(t, err, codes.InvalidArgument, "conversation_id: is required by the setting identity.require")
	results := batch(t, s, agent("", "one"), agent("ann", "two"), agent("bob", "three"))
	wantError(t, results[0], "INVALID_ARGS")
	for _, res := range results[1:] {
		if res.GetIsError() || res.GetReplayed() {
			t.Errorf("%v", res)
		}
	}
	if n := up.Ledger.Total(); n != 2 {
		t.Errorf("%d executions, want those of ann and bob", n)
	}
	code, stdout, stderr := harness.CLI(t, "call", "act", `{"key":"four"}`, "--addr", "tcp://"+s.Addr)
	flags, found := strings.CutPrefix(stderr, "sidecall: the same call again: ")
	if code != 0 || !found {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	_, again, stderr := harness.CLI(t, append([]string{"call", "act", `{"key":"four"}`, "--addr", "tcp://" + s.Addr}, strings.Fields(flags)...)...)
	if again != stdout || !strings.Contains(stderr, "replayed, nothing ran") || up.Ledger.Executions("four") != 1 {
		t.Errorf("with %q: %s%s, first %s", flags, again, stderr, stdout)
	}
	relaxed := harness.Start(t, "identity: {require: []}"+oneTool(up.URL))
	if res := relaxed.Call(agent("", "five")); res.GetIsError() {
		t.Errorf("relaxed: %s", res.GetContent())
	}
}

// readiness is the body of /readyz.
type readiness struct {
	Status       string            `json:"status"`
	Tools        int               `json:"tools"`
	BackendsDown map[string]string `json:"backends_down"`
	Undiscovered map[string]string `json:"undiscovered"`
}

func readyz(t *testing.T, s *harness.Sidecar) (code int, body readiness) {
	t.Helper()
	code, text := s.Get("/readyz")
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		t.Fatalf("/readyz is not JSON: %v: %s", err, text)
	}
	return code, body
}

func TestServeReadyAndDegraded(t *testing.T) {
	t.Parallel()
	ready := harness.Start(t, oneTool("http://127.0.0.1:1"))
	if code, body := readyz(t, ready); code != http.StatusOK || body.Status != "ready" || body.Tools != 2 {
		t.Errorf("/readyz = %d %+v, want 200 ready with act and read_output", code, body)
	}
	if code, text := ready.Get("/healthz"); code != http.StatusOK || !strings.Contains(text, `"ok"`) {
		t.Errorf("/healthz = %d %s", code, text)
	}

	up := startUpstream(t)
	degraded := harness.Start(t, `
backends:
  up: {http: {base_url: "`+up.URL+`", allow_private: true}}
  gone: {mcp: {command: ["/no/such/server"]}, optional: true}
tools:
  act: {backend: up, http: {method: POST, path: /act}}
`)
	harness.WaitFor(t, "the dead backend to show", func() bool {
		_, body := readyz(t, degraded)
		return body.Status == "degraded" && body.BackendsDown["gone"] != ""
	})
	if code, body := readyz(t, degraded); code != http.StatusOK {
		t.Errorf("/readyz = %d %+v: one dead backend makes the sidecar unready", code, body)
	}
	list, err := degraded.Client.ListTools(t.Context(), &sidecallv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if down := list.GetUnavailableBackends(); len(down) != 1 || down[0].GetName() != "gone" || down[0].GetReason() == "" || !down[0].GetUndiscovered() {
		t.Errorf("unavailable backends = %v, want gone with a reason", down)
	}
	if res := degraded.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act"}); res.GetIsError() {
		t.Errorf("the other backend's tool fails too: %s", res.GetContent())
	}
	if out, _ := ranWell(t, "ready", "--config", degraded.Config); !strings.Contains(out, "backend gone is not discovered yet: ") {
		t.Errorf("sidecall ready says %s", out)
	}
}

func TestServeMetricsHaveTheirNames(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	up.Script("/act", upstream.Status(http.StatusServiceUnavailable))
	s := harness.Start(t, strings.Replace(oneTool(up.URL), "allow_private: true}",
		"allow_private: true}, breaker: {failures: 1, open_for: 1h}", 1))
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "act"})
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t2", ToolName: "act"})
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t3", ToolName: "made_up_by_the_model"})

	code, page := s.Get("/metrics")
	if code != http.StatusOK {
		t.Fatalf("/metrics = %d", code)
	}
	for _, want := range [][]string{
		{"gen_ai_execute_tool_duration_seconds_count{", `gen_ai_tool_name="act"`, `error_type="OUTCOME_UNKNOWN"`},
		{"sidecall_calls_total{", `gen_ai_tool_name="act"`, `error_type="CIRCUIT_OPEN"`},
		{"sidecall_calls_total{", `gen_ai_tool_name="_unknown"`, `error_type="UNKNOWN_TOOL"`},
		{"sidecall_attempts_total{", `gen_ai_tool_name="act"`, `sidecall_outcome="ambiguous"`},
		{"sidecall_calls_in_flight ", " 0"},
		{"sidecall_breaker_state{", `sidecall_breaker="up/act"`, " 2"},
		{"sidecall_breaker_state{", `sidecall_breaker="up"`, " 0"},
		{"process_resident_memory_bytes "},
	} {
		if !slices.ContainsFunc(strings.Split(page, "\n"), func(line string) bool {
			return strings.HasPrefix(line, want[0]) && !slices.ContainsFunc(want[1:], func(part string) bool {
				return !strings.Contains(line, part)
			})
		}) {
			t.Errorf("/metrics has no line with %q", want)
		}
	}
	if strings.Contains(page, "made_up_by_the_model") {
		t.Error("a name that the model made up has become a label")
	}
}
