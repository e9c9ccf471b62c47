//go:build e2e

package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/collector"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// All three signals arrive at a real OpenTelemetry Collector, over both protocols of
// OTLP, and no secret with them.
func TestASidecarAndARealCollector(t *testing.T) {
	t.Parallel()
	c := collector.Start(t)
	up := startTraced(t)
	for name, env := range map[string][]string{
		"grpc": nil,
		"http": {"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + c.HTTP},
	} {
		s := harness.Start(t, tracedConfig(up.URL), c.Env(append(env, "E2E_HEADER_SECRET="+headerSecret, "OTEL_SERVICE_NAME="+name)...)...)
		s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: name + "-1", ToolName: "fine", ArgumentsJson: `{"pin":"` + argSecret + `"}`})
		s.Stop() // flushes
		if strings.Contains(s.Log(), `"msg":"telemetry was lost"`) {
			t.Errorf("%s: something was not sent:\n%s", name, s.Log())
		}
	}
	c.Stop()

	spans := make(map[string][]string)
	traceOf := make(map[string]string)
	for _, span := range c.Spans() {
		spans[span.Service] = append(spans[span.Service], span.GetName())
		traceOf[span.Service] = hex.EncodeToString(span.GetTraceId())
	}
	logged := make(map[string]string)
	for _, record := range c.Logs() {
		if record.GetBody().GetStringValue() == "call" {
			logged[collector.Attributes(record.GetAttributes())["tool_use_id"]] = hex.EncodeToString(record.GetTraceId())
		}
	}
	for _, name := range []string{"grpc", "http"} {
		if want := []string{"execute_tool fine", "attempt"}; !slices.Equal(spans[name], want) {
			t.Errorf("%s: spans %q, want %q", name, spans[name], want)
		}
		// By its trace a log record is found from the span, and the other way round.
		if got := logged[name+"-1"]; got == "" || got != traceOf[name] {
			t.Errorf("%s: the log record of the call has the trace %q, its span %q", name, got, traceOf[name])
		}
	}
	for _, name := range []string{"gen_ai.execute_tool.duration", "sidecall.calls", "sidecall.attempts"} {
		if c.Metrics()[name] == nil {
			t.Errorf("no metric %s among %q", name, slices.Sorted(maps.Keys(c.Metrics())))
		}
	}
	for _, secret := range []string{argSecret, headerSecret, upstreamSecret} {
		if strings.Contains(c.Text(), secret) {
			t.Errorf("%s was sent", secret)
		}
	}
}

// What the pods of one service send is told apart, of every signal: by the instance of
// their config, or as the standard variable has it.
func TestPodsAtOneCollector(t *testing.T) {
	t.Parallel()
	c, up := collector.Start(t), startTraced(t)
	for instance, env := range map[string][]string{
		"pod-0": nil,
		"pod-1": nil,
		"other": {"OTEL_RESOURCE_ATTRIBUTES=service.instance.id=pod-2"},
	} {
		s := harness.Start(t, "instance: "+instance+tracedConfig(up.URL), c.Env(append(env, "E2E_HEADER_SECRET="+headerSecret)...)...)
		s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: instance, ToolName: "fine"})
		s.Stop() // flushes
	}
	c.Stop()
	sent := c.Instances()
	for _, signal := range []string{"traces", "metrics", "logs"} {
		got := slices.Sorted(slices.Values(sent[signal]))
		if want := []string{"pod-0", "pod-1", "pod-2"}; !slices.Equal(got, want) {
			t.Errorf("%s of the instances %q, want %q", signal, got, want)
		}
	}
}

// remembering is an MCP server whose tool remembers the traceparent of each call.
type remembering struct {
	*httptest.Server
	mu      sync.Mutex
	parents []string
}

func startRemembering(t *testing.T) *remembering {
	t.Helper()
	r := &remembering{}
	server := mcp.NewServer(&mcp.Implementation{Name: "remembering", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "look", Description: "Looks."}, func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		parent, _ := req.Params.Meta["traceparent"].(string)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.parents = append(r.parents, parent)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "seen"}}}, nil, nil
	})
	r.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(r.Close)
	return r
}

func (r *remembering) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.parents)
}

// family are the spans of the agent's trace as a line each: the name of a span below
// that of its parent, and so on up to the root.
func family(t *testing.T, spans []collector.Span) []string {
	t.Helper()
	byID := make(map[string]collector.Span)
	for _, span := range spans {
		byID[string(span.GetSpanId())] = span
	}
	lines := make([]string, 0, len(spans))
	for _, span := range spans {
		line := span.Service + ":" + span.GetName()
		for up := span; len(up.GetParentSpanId()) > 0; {
			parent, ok := byID[string(up.GetParentSpanId())]
			if !ok {
				t.Fatalf("%s has a parent %x that nobody sent", up.GetName(), up.GetParentSpanId())
			}
			if string(parent.GetTraceId()) != string(span.GetTraceId()) {
				t.Errorf("%s is of another trace than its parent %s", up.GetName(), parent.GetName())
			}
			line, up = parent.Service+":"+parent.GetName()+" > "+line, parent
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// One trace goes from the agent through the sidecar and each of its attempts into the
// upstreams, over HTTP and over MCP.
func TestOneTraceFromTheAgentIntoTheUpstream(t *testing.T) {
	python, err := mcpservers.Python()
	if err != nil {
		t.Fatal(err)
	}
	agents := map[string][]string{
		"node":   {"node", filepath.Join(harness.Root(), "test", "e2e", "node", "traced.mjs")},
		"python": {python, "-B", filepath.Join(harness.Root(), "test", "e2e", "python", "traced.py")},
	}
	for language, agent := range agents {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			oneTrace(t, agent)
		})
	}
}

func oneTrace(t *testing.T, agent []string) {
	t.Helper()
	c, up, remote := collector.Start(t), startTraced(t), startRemembering(t)
	config := strings.Replace(tracedConfig(up.URL), "backends: {", `backends: {remote: {mcp: {url: "`+remote.URL+`", allow_private: true}, prefix: remote_}, `, 1)
	s := harness.Start(t, config, c.Env("E2E_HEADER_SECRET="+headerSecret)...)
	harness.WaitFor(t, "the tool of the MCP server", func() bool { return slices.Contains(s.Tools(), "remote_look") })
	cmd := exec.CommandContext(t.Context(), agent[0], append(agent[1:len(agent):len(agent)], "tcp://"+s.Addr)...)
	cmd.Env = append(os.Environ(), c.Env("PYTHONPATH="+filepath.Join(harness.Root(), "clients", "python", "src"))...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.Stop() // flushes
	c.Stop()

	const root, turn, later = "agent:invoke_agent desk", " > agent:turn", " > agent:asynchronous turn"
	want := []string{
		root,
		root + turn,
		root + turn + " > sidecall:execute_tool flaky",
		root + turn + " > sidecall:execute_tool flaky > sidecall:attempt",
		root + turn + " > sidecall:execute_tool flaky > sidecall:attempt",
		root + turn + " > sidecall:execute_tool flaky > sidecall:attempt",
		root + turn + " > sidecall:execute_tool remote_look",
		root + turn + " > sidecall:execute_tool remote_look > sidecall:attempt",
		root + later,
		root + later + " > sidecall:execute_tool fine",
		root + later + " > sidecall:execute_tool fine > sidecall:attempt",
	}
	slices.Sort(want)
	spans := c.Spans()
	if got := family(t, spans); !slices.Equal(got, want) {
		t.Errorf("the collector has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// What the upstreams were told is the span of the very attempt.
	told := slices.Concat(up.seen("/flaky"), remote.seen(), up.seen("/fine"))
	var attempts []string
	for _, span := range spans {
		if span.GetName() == "attempt" {
			attempts = append(attempts, fmt.Sprintf("00-%x-%x-%02x", span.GetTraceId(), span.GetSpanId(), span.GetFlags()&0xff))
		}
	}
	slices.Sort(told)
	slices.Sort(attempts)
	if len(told) != 5 || !slices.Equal(told, attempts) {
		t.Errorf("the upstreams were told %q, the attempts are %q", told, attempts)
	}
}
