//go:build e2e

package e2e

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/collector"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// convention is an attribute of a span as a convention has it, and what Sidecall says. No
// wish is what is never there: opt-in attributes, and what a sidecar does not know.
type convention struct {
	key   attribute.Key
	level string
	// said are what it is of each kind of call, a pattern for all of it; "" for those
	// that do not have it.
	said map[string]string
}

func always(value string) map[string]string {
	said := make(map[string]string, len(conventionCalls))
	for _, call := range conventionCalls {
		said[call] = value
	}
	return said
}

// conventionCalls are the calls of the test: one that works, one that fails, one that
// the model has made up, and three at an MCP server.
var conventionCalls = []string{"fine", "broken", "made_up", "remote_look", "remote_fails", "remote_refuses"}

// executeToolSpan is the span gen_ai.execute_tool.internal of the GenAI conventions: the
// names are those of the semantic conventions 1.41.0, the last version that has them; since
// then they are in the repository semantic-conventions-genai (main of July 2026, which
// adds gen_ai.agent.name). docs/gen-ai/gen-ai-spans.md, "Execute tool span".
var executeToolSpan = []convention{
	{semconv.GenAIOperationNameKey, "required", always("execute_tool")},
	{semconv.GenAIToolNameKey, "required", map[string]string{
		"fine": "fine", "broken": "broken", "made_up": "made_up",
		"remote_look": "remote_look", "remote_fails": "remote_fails", "remote_refuses": "remote_refuses",
	}},
	{semconv.ErrorTypeKey, "required if it failed", map[string]string{
		"broken": "OUTCOME_UNKNOWN", "made_up": "UNKNOWN_TOOL", "remote_fails": "[A-Z_]+", "remote_refuses": "[A-Z_]+",
	}},
	{semconv.GenAIAgentNameKey, "required when applicable", nil}, // the agent is another process
	{semconv.GenAIToolCallIDKey, "recommended", always("id-.*")},
	{semconv.GenAIToolDescriptionKey, "recommended", map[string]string{
		"fine": "Is fine[.]", "remote_look": "Looks[.]", "remote_fails": "Fails[.] .{192}…", "remote_refuses": "Refuses[.]",
	}},
	{semconv.GenAIToolTypeKey, "recommended", always("function")},
	{semconv.GenAIToolCallArgumentsKey, "opt-in", nil},
	{semconv.GenAIToolCallResultKey, "opt-in", nil},
	{semconv.GenAIConversationIDKey, "general", always("conv")},
}

// mcpClientSpan is the span mcp.client, whose attributes the attempts have.
// model/mcp/spans.yaml and common.yaml of the same repositories.
var mcpClientSpan = []convention{
	{semconv.McpMethodNameKey, "required", remotely("tools/call")},
	{semconv.GenAIToolNameKey, "required for a tool", map[string]string{
		"remote_look": "remote_look", "remote_fails": "remote_fails", "remote_refuses": "remote_refuses",
	}},
	{semconv.ErrorTypeKey, "required if it failed", map[string]string{"remote_fails": "tool_error", "remote_refuses": "-32050"}},
	{semconv.RPCResponseStatusCodeKey, "required if there is one", map[string]string{"remote_refuses": "-32050"}},
	{semconv.JSONRPCRequestIDKey, "required", remotely("[0-9]+")},
	{semconv.McpProtocolVersionKey, "recommended", remotely("20[0-9-]+")},
	{semconv.NetworkTransportKey, "recommended", remotely("tcp")},
	{semconv.NetworkProtocolNameKey, "recommended", remotely("http")},
	{semconv.McpSessionIDKey, "recommended", nil},       // as good as a password, to some servers
	{semconv.GenAIOperationNameKey, "recommended", nil}, // the span of the call above has it
	{semconv.GenAIToolCallArgumentsKey, "opt-in", nil},
	{semconv.GenAIToolCallResultKey, "opt-in", nil},
}

// httpClientSpan is the span http.client, whose attributes the attempts over HTTP have.
// model/http/spans.yaml of the semantic conventions 1.41.0.
var httpClientSpan = []convention{
	{semconv.HTTPRequestMethodKey, "required", locally("POST")},
	{semconv.ServerAddressKey, "required", locally("127[.]0[.]0[.]1")},
	{semconv.ServerPortKey, "required", locally("[0-9]+")},
	{semconv.URLFullKey, "required", map[string]string{"fine": "http://127[.]0[.]0[.]1:[0-9]+/fine", "broken": "http://127[.]0[.]0[.]1:[0-9]+/broken"}},
	{semconv.HTTPResponseStatusCodeKey, "required if there is one", map[string]string{"fine": "200", "broken": "503"}},
	{semconv.ErrorTypeKey, "required if it failed", map[string]string{"broken": "503"}},
	{semconv.GenAIToolNameKey, "of the call", map[string]string{"fine": "fine", "broken": "broken"}},
	{semconv.HTTPRequestResendCountKey, "recommended", nil}, // sidecall.attempt says it
	{semconv.NetworkPeerAddressKey, "recommended", nil},
	{semconv.NetworkProtocolVersionKey, "recommended", nil},
	{semconv.URLTemplateKey, "opt-in", nil}, // url.full is one
}

func locally(value string) map[string]string {
	return map[string]string{"fine": value, "broken": value}
}

func remotely(value string) map[string]string {
	return map[string]string{"remote_look": value, "remote_fails": value, "remote_refuses": value}
}

// follows compares a span with a convention: every attribute of it, and none that has the
// name of one and is not in it.
func follows(t *testing.T, call string, span collector.Span, conventions []convention) {
	t.Helper()
	got := collector.Attributes(span.GetAttributes())
	known := make([]string, 0, len(conventions))
	for _, c := range conventions {
		known = append(known, string(c.key))
		value, there := got[string(c.key)]
		want := c.said[call]
		if there != (want != "") || there && !regexp.MustCompile("^(?:"+want+")$").MatchString(value) {
			t.Errorf("%s, %s (%s): %s is %q, want %q", call, span.GetName(), c.level, c.key, value, want)
		}
	}
	for key := range got {
		if !strings.HasPrefix(key, "sidecall.") && !slices.Contains(known, key) {
			t.Errorf("%s, %s: %s is not of the convention", call, span.GetName(), key)
		}
	}
}

// conventional is an MCP server with a tool for each end of a call.
func conventional(t *testing.T) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "conventional", Version: "1"}, nil)
	for name, tool := range map[string]struct {
		description string
		err         error
	}{
		"look":    {"Looks.", nil},
		"fails":   {"Fails. " + strings.Repeat("And fails. ", 100), errors.New("no such table: " + upstreamSecret)},
		"refuses": {"Refuses.", &jsonrpc.Error{Code: -32050, Message: "not now: " + upstreamSecret}},
	} {
		mcp.AddTool(server, &mcp.Tool{Name: name, Description: tool.description},
			func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: upstreamSecret}}}, nil, tool.err
			})
	}
	http := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(http.Close)
	return http.URL
}

// Spans and metrics follow OpenTelemetry's conventions, attribute by attribute, and have
// neither arguments nor results.
func TestTheConventionsOfOpenTelemetry(t *testing.T) {
	t.Parallel()
	c, up := collector.Start(t), startTraced(t)
	config := strings.Replace(tracedConfig(up.URL), "backends: {", `backends: {remote: {mcp: {url: "`+conventional(t)+`", allow_private: true}, prefix: remote_}, `, 1)
	config = strings.Replace(config, "  fine: {", "  fine: {description: Is fine., ", 1)
	s := harness.Start(t, config, c.Env("E2E_HEADER_SECRET="+headerSecret)...)
	harness.WaitFor(t, "the tools of the MCP server", func() bool { return slices.Contains(s.Tools(), "remote_refuses") })
	for _, call := range conventionCalls {
		s.Call(&sidecallv1.ExecuteToolRequest{
			ToolUseId: "id-" + call, ToolName: call, ConversationId: "conv", ArgumentsJson: `{"pin":"` + argSecret + `"}`,
		})
	}
	s.Stop() // flushes
	c.Stop()

	calls, byID := make(map[string]collector.Span), make(map[string]string)
	for _, span := range c.Spans() {
		if name := collector.Attributes(span.GetAttributes())[string(semconv.GenAIToolNameKey)]; span.GetName() != "attempt" {
			calls[name], byID[string(span.GetSpanId())] = span, name
		}
	}
	for _, call := range conventionCalls {
		span, ok := calls[call]
		if !ok {
			t.Errorf("no span of %s", call)
			continue
		}
		follows(t, call, span, executeToolSpan)
		name := "execute_tool " + call
		if call == "made_up" {
			name = "execute_tool _unknown" // a name is to have few values, and models make up many
		}
		if span.GetName() != name || span.GetKind() != tracepb.Span_SPAN_KIND_INTERNAL || span.Schema != semconv.SchemaURL {
			t.Errorf("%s: the span is %q, %s, of %s", call, span.GetName(), span.GetKind(), span.Schema)
		}
		_, failed := collector.Attributes(span.GetAttributes())[string(semconv.ErrorTypeKey)]
		if isError := span.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR; isError != failed {
			t.Errorf("%s: failed is %t, its status %s", call, failed, span.GetStatus())
		}
	}
	attempts := 0
	for _, span := range c.Spans() {
		call := byID[string(span.GetParentSpanId())]
		if span.GetName() != "attempt" {
			continue
		}
		attempts++
		conventions := httpClientSpan
		if strings.HasPrefix(call, "remote_") {
			conventions = mcpClientSpan
		}
		follows(t, call, span, conventions)
		if span.GetKind() != tracepb.Span_SPAN_KIND_CLIENT {
			t.Errorf("%s: an attempt is a span of kind %s", call, span.GetKind())
		}
	}
	if attempts != 5 {
		t.Errorf("%d attempts, want 2 over HTTP and 3 at the MCP server", attempts)
	}
	duration := c.Metrics()["gen_ai.execute_tool.duration"]
	if duration.GetUnit() != "s" || duration.GetHistogram() == nil {
		t.Fatalf("gen_ai.execute_tool.duration is %v, want a histogram in seconds", duration)
	}
	for _, point := range duration.GetHistogram().GetDataPoints() {
		got := collector.Attributes(point.GetAttributes())
		if got[string(semconv.GenAIToolNameKey)] == "" || got[string(semconv.GenAIOperationNameKey)] != "execute_tool" || got["gen_ai.tool.call.id"] != "" {
			t.Errorf("a duration has %v", got)
		}
	}
	for _, secret := range []string{argSecret, headerSecret, upstreamSecret} {
		if at := strings.Index(c.Text(), secret); at >= 0 {
			t.Errorf("%s was sent: %s", secret, c.Text()[max(0, at-400):at+50])
		}
	}
}
