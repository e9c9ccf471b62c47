//go:build e2e

package e2e

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/metadata"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// traced is an upstream that fails the first requests to a path and remembers
// the traceparent of each.
type traced struct {
	*httptest.Server
	mu      sync.Mutex
	parents map[string][]string
}

func startTraced(t *testing.T) *traced {
	t.Helper()
	up := &traced{parents: make(map[string][]string)}
	up.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up.mu.Lock()
		up.parents[r.URL.Path] = append(up.parents[r.URL.Path], r.Header.Get("Traceparent"))
		n := len(up.parents[r.URL.Path])
		up.mu.Unlock()
		if r.URL.Path == "/flaky" && n < 3 || r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, `{"answer":"`+upstreamSecret+`"}`) // the client is the sidecar
	}))
	t.Cleanup(up.Close)
	return up
}

func (u *traced) seen(path string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.parents[path])
}

const upstreamSecret = "ups-5ecret-91ab3d"

func tracedConfig(url string) string {
	return `
defaults: {retry: {base: 1ms}}
backends: {up: {http: {base_url: "` + url + `", allow_private: true, headers: {Authorization: "Bearer ${env:E2E_HEADER_SECRET}"}}}}
tools:
  flaky: {backend: up, effect: read_only, http: {method: POST, path: /flaky}}
  broken: {backend: up, http: {method: POST, path: /broken}}
  fine: {backend: up, http: {method: POST, path: /fine}}
`
}

const (
	agentTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	agentSpan  = "00f067aa0ba902b7"
)

// callTraced makes a call as an agent that is traced does.
func callTraced(t *testing.T, s *harness.Sidecar, traceparent string, req *sidecallv1.ExecuteToolRequest) {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent)
	if _, err := s.Client.ExecuteTool(ctx, req); err != nil {
		t.Fatal(err)
	}
}

func startSending(t *testing.T, up *traced, r *receiver, more ...string) *harness.Sidecar {
	t.Helper()
	return harness.Start(t, tracedConfig(up.URL), r.env(append(more, "E2E_HEADER_SECRET="+headerSecret)...)...)
}

func TestTelemetryTracesACallAndItsAttempts(t *testing.T) {
	t.Parallel()
	r, up := startReceiver(t), startTraced(t)
	s := startSending(t, up, r)
	callTraced(t, s, "00-"+agentTrace+"-"+agentSpan+"-01", &sidecallv1.ExecuteToolRequest{
		ToolUseId: "toolu_1", ToolName: "flaky", ConversationId: "conv", ArgumentsJson: `{"pin":"` + argSecret + `"}`,
		Labels: map[string]string{"team": "billing"},
	})
	trace, err := hex.DecodeString(agentTrace)
	if err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "four spans", func() bool { return len(r.spansOf(trace)) >= 4 })
	s.Stop()
	spans := r.spansOf(trace)
	if len(spans) != 4 {
		t.Fatalf("%d spans, want the call and three attempts: %v", len(spans), spans)
	}
	call, attempts := spans[0], spans[1:]
	if call.GetName() != "execute_tool flaky" || hex.EncodeToString(call.GetParentSpanId()) != agentSpan {
		t.Errorf("the call is %q, child of %x, want execute_tool flaky, child of %s", call.GetName(), call.GetParentSpanId(), agentSpan)
	}
	wantAttributes(t, "the call", call, map[string]string{
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "flaky", "gen_ai.tool.call.id": "toolu_1",
		"gen_ai.tool.type": "function", "gen_ai.conversation.id": "conv", "sidecall.label.team": "billing",
		"sidecall.outcome": "retried", "sidecall.attempts": "3",
	})
	if call.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		t.Error("a call that worked in the end is marked as failed")
	}
	sent := up.seen("/flaky")
	for i, attempt := range attempts {
		if string(attempt.GetParentSpanId()) != string(call.GetSpanId()) || attempt.GetKind() != tracepb.Span_SPAN_KIND_CLIENT {
			t.Errorf("attempt %d is no client span below the call: %v", i+1, attempt)
		}
		want := map[string]string{"gen_ai.tool.name": "flaky", "sidecall.backend": "up", "sidecall.attempt": fmt.Sprint(i + 1)}
		if i < 2 {
			want["error.type"], want["sidecall.evidence"] = "503", "ambiguous"
		}
		wantAttributes(t, fmt.Sprint("attempt ", i+1), attempt, want)
		if failed := attempt.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR; failed != (i < 2) {
			t.Errorf("attempt %d: failed = %t", i+1, failed)
		}
		if want := fmt.Sprintf("00-%s-%x-01", agentTrace, attempt.GetSpanId()); sent[i] != want {
			t.Errorf("request %d carried traceparent %s, want %s", i+1, sent[i], want)
		}
	}
}

func wantAttributes(t *testing.T, what string, span *tracepb.Span, want map[string]string) {
	t.Helper()
	got := flat(span.GetAttributes())
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %s = %q, want %q", what, key, got[key], value)
		}
	}
}

func TestTelemetryOfAFailure(t *testing.T) {
	t.Parallel()
	r, up := startReceiver(t), startTraced(t)
	s := startSending(t, up, r)
	// Without a trace of the agent's the call begins one.
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "toolu_2", ToolName: "broken"})
	harness.WaitFor(t, "the request", func() bool { return len(up.seen("/broken")) == 1 })
	parts := strings.Split(up.seen("/broken")[0], "-")
	if len(parts) != 4 {
		t.Fatalf("traceparent = %q", up.seen("/broken"))
	}
	trace, err := hex.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	harness.WaitFor(t, "both spans", func() bool { return len(r.spansOf(trace)) == 2 })
	call := r.spansOf(trace)[0]
	if len(call.GetParentSpanId()) != 0 || call.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the call's span is %v, want a root that failed", call)
	}
	wantAttributes(t, "the call", call, map[string]string{"error.type": "OUTCOME_UNKNOWN", "sidecall.outcome": "unknown"})
}

func TestTelemetrySendsMetricsAndLogsAndNoValues(t *testing.T) {
	t.Parallel()
	r, up := startReceiver(t), startTraced(t)
	s := startSending(t, up, r)
	pin := `{"pin":"` + argSecret + `","n":5}`
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "m1", ToolName: "fine", ConversationId: "conv", ArgumentsJson: pin})
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "m2", ToolName: "broken", ArgumentsJson: pin})
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "m3", ToolName: "fine", ArgumentsJson: pin + "]"})
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "m4", ToolName: "made_up", ArgumentsJson: pin})
	s.Stop() // flushes

	duration := r.metric("gen_ai.execute_tool.duration")
	if duration == nil || duration.GetUnit() != "s" || duration.GetHistogram() == nil {
		t.Fatalf("gen_ai.execute_tool.duration = %v, want a histogram in seconds", duration)
	}
	counts := make(map[string]uint64)
	for _, point := range duration.GetHistogram().GetDataPoints() {
		attributes := flat(point.GetAttributes())
		counts[attributes["gen_ai.tool.name"]+" "+attributes["error.type"]] += point.GetCount()
	}
	want := map[string]uint64{"fine ": 1, "broken OUTCOME_UNKNOWN": 1, "fine INVALID_ARGS": 1, "_unknown UNKNOWN_TOOL": 1}
	if !maps.Equal(counts, want) {
		t.Errorf("durations of %v, want %v", counts, want)
	}
	for _, name := range []string{"sidecall.calls", "sidecall.attempts", "sidecall.calls.in_flight", "sidecall.breaker.state"} {
		if r.metric(name) == nil {
			t.Errorf("no metric %s", name)
		}
	}
	if log := r.callLog("m1"); log["args"] != "{n:number,pin:string}" || log["outcome"] != "ok" || log["conversation"] != "conv" {
		t.Errorf("the log record of a call is %v", log)
	}
	// The text format puts one blank or two, on purpose.
	if !regexp.MustCompile(`string_value: +"sidecall"`).MatchString(r.all()) {
		t.Error("nothing says service.name = sidecall")
	}
	for _, secret := range []string{argSecret, headerSecret, upstreamSecret} {
		if text := r.all(); strings.Contains(text, secret) {
			at := strings.Index(text, secret)
			t.Errorf("%s was sent: %s", secret, text[max(0, at-400):at+50])
		}
	}
}

func TestTelemetryHonoursTheStandardVariables(t *testing.T) {
	t.Parallel()
	up := startTraced(t)
	call := func(s *harness.Sidecar, path, traceparent string) {
		t.Helper()
		callTraced(t, s, traceparent, &sidecallv1.ExecuteToolRequest{ToolUseId: path, ToolName: "fine"})
		s.Stop()
	}
	none := startReceiver(t)
	call(startSending(t, up, none, "OTEL_TRACES_EXPORTER=none", "OTEL_LOGS_EXPORTER=none"), "1", "00-"+agentTrace+"-"+agentSpan+"-01")
	if len(none.spans) != 0 || len(none.logs) != 0 || none.metric("sidecall.calls") == nil {
		t.Errorf("with exporters none: %d spans, %d logs, metrics %v", len(none.spans), len(none.logs), none.metrics)
	}
	disabled := startReceiver(t)
	call(startSending(t, up, disabled, "OTEL_SDK_DISABLED=true"), "2", "00-"+agentTrace+"-"+agentSpan+"-01")
	if text := disabled.all(); text != "" {
		t.Errorf("disabled, it sent %s", text)
	}
	unsampled := startReceiver(t)
	call(startSending(t, up, unsampled), "3", "00-"+agentTrace+"-"+agentSpan+"-00")
	if len(unsampled.spans) != 0 {
		t.Errorf("the agent's trace is not sampled, but %d spans were sent", len(unsampled.spans))
	}
	for i, parent := range up.seen("/fine") {
		if !strings.HasPrefix(parent, "00-"+agentTrace+"-") {
			t.Errorf("request %d carried traceparent %q: the trace is cut", i+1, parent)
		}
	}
}

// watch tells of every connection to an address, until the end of the test.
func watch(t *testing.T, address string, connected chan<- string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Logf("%s is in use, so only the log is looked at", address)
		return
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close() // whoever it was is told nothing
			select {
			case connected <- address:
			default: // one is enough
			}
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		watching.Wait()
	})
}

// Without a variable that asks for it nothing is sent, not even to the places
// where a collector usually listens.
func TestTelemetryIsSilentUnlessAsked(t *testing.T) {
	up := startTraced(t)
	connected := make(chan string, 10)
	for _, address := range []string{"127.0.0.1:4317", "127.0.0.1:4318"} {
		watch(t, address, connected)
	}
	s := harness.Start(t, tracedConfig(up.URL), "E2E_HEADER_SECRET="+headerSecret,
		"OTEL_BSP_SCHEDULE_DELAY=10", "OTEL_BLRP_SCHEDULE_DELAY=10", "OTEL_METRIC_EXPORT_INTERVAL=10")
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "t1", ToolName: "fine"})
	s.Stop() // would flush
	select {
	case address := <-connected:
		t.Errorf("it connected to %s", address)
	default:
	}
	if strings.Contains(s.Log(), "telemetry") || strings.Contains(s.Log(), "export") {
		t.Errorf("it tried to export:\n%s", s.Log())
	}
	if parent := up.seen("/fine"); len(parent) != 1 || parent[0] != "" {
		t.Errorf("without a trace the upstream got traceparent %q", parent)
	}
}
