//go:build e2e

package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/metadata"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// called are the spans of calls that have arrived, by the ids of the calls; of one id in
// the order of their start.
func (r *receiver) called(id string) (calls []*tracepb.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, span := range r.spans {
		if flat(span.GetAttributes())["gen_ai.tool.call.id"] == id {
			calls = append(calls, span)
		}
	}
	slices.SortFunc(calls, func(a, b *tracepb.Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	return calls
}

// A replay by another process is linked to the span that did the work, in another trace,
// and both responses name that one.
func TestAReplayIsLinkedToTheTraceOfTheWork(t *testing.T) {
	t.Parallel()
	r, up := startReceiver(t), startTraced(t)
	s := startSending(t, up, r)
	req := &sidecallv1.ExecuteToolRequest{ToolUseId: "toolu_1", ToolName: "fine", ConversationId: "conv"}
	first := s.Call(req)
	s.Stop() // flushes
	s.Run()
	again := s.Call(req)
	s.Stop()
	calls := r.called("toolu_1")
	if len(calls) != 2 || !again.GetReplayed() || len(up.seen("/fine")) != 1 {
		t.Fatalf("%d spans, %d requests, then %v", len(calls), len(up.seen("/fine")), again)
	}
	work, replay := calls[0], calls[1]
	prefix := fmt.Sprintf("00-%x-%x-", work.GetTraceId(), work.GetSpanId())
	if !strings.HasPrefix(first.GetTraceparent(), prefix) || again.GetTraceparent() != first.GetTraceparent() {
		t.Errorf("the responses name %q and %q, the span is %s", first.GetTraceparent(), again.GetTraceparent(), prefix)
	}
	if links := replay.GetLinks(); len(links) != 1 || string(links[0].GetSpanId()) != string(work.GetSpanId()) || string(links[0].GetTraceId()) != string(work.GetTraceId()) {
		t.Errorf("the replay has the links %v, want one to %s", links, prefix)
	}
	if len(work.GetLinks()) > 0 || string(work.GetTraceId()) == string(replay.GetTraceId()) {
		t.Errorf("the work has the links %v, and its trace is %x", work.GetLinks(), work.GetTraceId())
	}
}

// The span of an attempt over HTTP has the URL, and none of the secrets in it: of
// arguments, of the fixed query, of a path that came from the environment.
func TestTheURLOfASpanHasNoSecret(t *testing.T) {
	t.Parallel()
	r, up := startReceiver(t), startTraced(t)
	s := harness.Start(t, `
backends: {up: {http: {base_url: "`+up.URL+`/hooks/${env:E2E_HOOK}", allow_private: true}}}
tools:
  look: {backend: up, effect: read_only, http: {method: GET, path: "/look/{pin}?key=`+headerSecret+`", query: {n: n, m: m}}}
`, r.env("E2E_HOOK="+upstreamSecret)...)
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "look", ToolName: "look", ArgumentsJson: `{"pin":"` + argSecret + `","n":["` + argSecret + `"]}`})
	s.Stop() // flushes
	calls := r.called("look")
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	spans := r.spansOf(calls[0].GetTraceId())
	if len(spans) != 2 {
		t.Fatalf("%d spans, want the call and its attempt", len(spans))
	}
	wantAttributes(t, "the attempt", spans[1], map[string]string{
		"http.request.method": "GET", "http.response.status_code": "200",
		"url.full": up.URL + "/REDACTED/look/REDACTED?key=REDACTED&n=REDACTED",
	})
	if len(up.seen("/hooks/"+upstreamSecret+"/look/"+argSecret)) != 1 {
		t.Error("the request was another one")
	}
	for _, secret := range []string{argSecret, headerSecret, upstreamSecret} {
		if strings.Contains(r.all(), secret) {
			t.Errorf("%s was sent to the collector", secret)
		}
	}
}

// luggage remembers the baggage that came with each request, over HTTP and over MCP.
type luggage struct {
	mu   sync.Mutex
	came map[string]string
}

func (l *luggage) take(of, baggage, parent string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.came[of] = baggage
	if !strings.Contains(parent, agentTrace) {
		l.came[of] += " without the trace"
	}
}

func startLuggage(t *testing.T) (l *luggage, url, mcpURL string) {
	t.Helper()
	l = &luggage{came: make(map[string]string)}
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		l.take(strings.Trim(r.URL.Path, "/"), r.Header.Get("Baggage"), r.Header.Get("Traceparent"))
	}))
	t.Cleanup(up.Close)
	server := mcp.NewServer(&mcp.Implementation{Name: "luggage", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "look", Description: "Looks."}, func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		baggage, _ := req.Params.Meta["baggage"].(string)
		parent, _ := req.Params.Meta["traceparent"].(string)
		l.take("mcp", baggage, parent)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "seen"}}}, nil, nil
	})
	remote := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(remote.Close)
	return l, up.URL, remote.URL
}

// The agent's baggage goes on to tools that are trusted, and to no other; the trace goes
// on to all. What goes on at all says OTEL_PROPAGATORS. So it is with spans of the
// sidecar's own and without.
func TestBaggageGoesOnToTrustedTools(t *testing.T) {
	t.Parallel()
	const carried = "tenant=acme"
	for name, c := range map[string]struct {
		trust, propagators string
		want               [3]string // own, foreign, over MCP
	}{
		"by default":           {"", "", [3]string{carried, "", ""}},
		"a trusted MCP server": {"trust: trusted, ", "", [3]string{carried, "", carried}},
		"without baggage":      {"trust: trusted, ", "tracecontext", [3]string{}},
	} {
		for _, traces := range []string{"otlp", "none"} {
			t.Run(name+", spans: "+traces, func(t *testing.T) {
				t.Parallel()
				r := startReceiver(t)
				l, url, remote := startLuggage(t)
				s := harness.Start(t, `
backends:
  up: {http: {base_url: "`+url+`", allow_private: true}}
  remote: {`+c.trust+`mcp: {url: "`+remote+`", allow_private: true}, prefix: remote_}
tools:
  own: {backend: up, effect: read_only, http: {method: GET, path: /own}}
  foreign: {backend: up, trust: untrusted, effect: read_only, http: {method: GET, path: /foreign}}
`, r.env("OTEL_PROPAGATORS="+c.propagators, "OTEL_TRACES_EXPORTER="+traces)...)
				harness.WaitFor(t, "the tool of the MCP server", func() bool { return slices.Contains(s.Tools(), "remote_look") })
				ctx := metadata.AppendToOutgoingContext(t.Context(), "baggage", carried)
				for _, name := range []string{"own", "foreign", "remote_look"} {
					ctx := metadata.AppendToOutgoingContext(ctx, "traceparent", "00-"+agentTrace+"-"+agentSpan+"-01")
					if res, err := s.Client.ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{ToolUseId: name, ToolName: name, ConversationId: "c"}); err != nil || res.GetIsError() {
						t.Fatalf("%s: %v, %v", name, res, err)
					}
				}
				s.Stop() // flushes
				if got := [3]string{l.came["own"], l.came["foreign"], l.came["mcp"]}; got != c.want || len(l.came) != 3 {
					t.Errorf("own, foreign and over MCP: %q, want %q; %v", got, c.want, l.came)
				}
				trace, err := hex.DecodeString(agentTrace)
				if err != nil {
					t.Fatal(err)
				}
				if spans := len(r.spansOf(trace)); (spans > 0) != (traces == "otlp") {
					t.Errorf("%d spans with the exporter %s", spans, traces)
				}
				if strings.Contains(r.all(), carried) || strings.Contains(r.all(), "acme") {
					t.Error("baggage was sent to the collector")
				}
			})
		}
	}
}
