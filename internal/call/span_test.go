package call_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// traced gives a sidecar a tracer, and returns where its spans are once they have ended.
func traced(t *testing.T, s *calltest.Sidecar) *tracetest.SpanRecorder {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	withTracer(t, s, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"))
	return spans
}

func withTracer(t *testing.T, s *calltest.Sidecar, tracer trace.Tracer) {
	t.Helper()
	recorder, err := telemetry.NewRecorder(tracer, noop.NewMeterProvider().Meter("test"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.With(func(p *call.Parts) { p.Recorder = recorder })
}

// callsOf are the spans of calls, in order, without those of attempts.
func callsOf(spans *tracetest.SpanRecorder) (calls []sdktrace.ReadOnlySpan) {
	for _, span := range spans.Ended() {
		if strings.HasPrefix(span.Name(), "execute_tool ") {
			calls = append(calls, span)
		}
	}
	return calls
}

// parentOf is a span as a traceparent.
func parentOf(span sdktrace.ReadOnlySpan) string {
	return "00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"
}

func attributeOf(span sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, a := range span.Attributes() {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// A result names the span of its execution, and so does every replay of it, whose own span
// has a link to that one: the attempts are there.
func TestAReplayIsLinkedToTheSpanOfItsExecution(t *testing.T) {
	for name, b := range map[string]*calltest.Backend{
		"a result": calltest.Answers("paid"), "a definite error": calltest.Fails(calltest.Always, calltest.NotFound),
		"an unknown outcome": calltest.Fails(calltest.Always, calltest.CutOff),
	} {
		t.Run(name, func(t *testing.T) {
			s := calltest.New(t, calltest.NewRoute(t, "pay", tool.NonIdempotent, b))
			spans := traced(t, s)
			first, again := s.Call(calltest.Request("toolu_1", "pay")), s.Call(calltest.Request("toolu_1", "pay"))
			record, err := s.Records().Execution(t.Context(), tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_1"})
			if err != nil {
				t.Fatal(err)
			}
			calls := callsOf(spans)
			if len(calls) != 2 || !again.GetReplayed() {
				t.Fatalf("%d calls, the second %v", len(calls), again)
			}
			origin := parentOf(calls[0])
			for _, res := range []*sidecallv1.ExecuteToolResponse{first, again, record.GetResult()} {
				if res.GetTraceparent() != origin {
					t.Errorf("traceparent is %q, want %q: %v", res.GetTraceparent(), origin, res)
				}
			}
			if links := calls[0].Links(); len(links) > 0 {
				t.Errorf("the execution is linked to %v", links)
			}
			links := calls[1].Links()
			if len(links) != 1 || links[0].SpanContext.SpanID() != calls[0].SpanContext().SpanID() || links[0].SpanContext.TraceID() != calls[0].SpanContext().TraceID() {
				t.Errorf("the replay is linked to %v, want %s", links, origin)
			}
		})
	}
}

// Who settles an unknown call has not executed it: replays name the execution still.
func TestAResolutionKeepsTheSpanOfTheExecution(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "pay", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff)))
	spans := traced(t, s)
	s.Call(calltest.Request("toolu_1", "pay"))
	_, err := s.Settlements().Resolve(t.Context(), tool.CallID{Conversation: "c1", Turn: "t1", ID: "toolu_1"}, "ops", &sidecallv1.ResolveExecutionRequest{
		ConversationId: "c1", TurnId: "t1", ToolUseId: "toolu_1", State: sidecallv1.ExecutionState_EXECUTION_STATE_DONE, Reason: "the ledger has it",
	})
	if err != nil {
		t.Fatal(err)
	}
	again := s.Call(calltest.Request("toolu_1", "pay"))
	if want := parentOf(callsOf(spans)[0]); again.GetIsError() || again.GetTraceparent() != want {
		t.Errorf("traceparent is %q, want %q: %v", again.GetTraceparent(), want, again)
	}
}

// What was not executed names no span, and without a tracer nothing does, although the
// caller has one.
func TestNoSpanIsNamedWhereNothingWasExecutedOrTraced(t *testing.T) {
	s := calltest.New(t,
		calltest.NewRoute(t, "pay", tool.NonIdempotent, calltest.Answers("paid")),
		calltest.NewRoute(t, "blocked", tool.NonIdempotent, calltest.Answers("paid"), calltest.WithBreaker(1)))
	blocked, _ := s.Catalog.Snapshot().Lookup("blocked")
	trip(t, blocked.Breaker, 1)
	spans := traced(t, s)
	for _, req := range []*sidecallv1.ExecuteToolRequest{
		calltest.Request("toolu_1", "made_up"),
		{ToolUseId: "toolu_2", ToolName: "pay", ConversationId: "c1", ArgumentsJson: "{}"},
		{ToolUseId: "toolu_3", ToolName: "pay", ConversationId: "c1", ArgumentsJson: `{"order_id":"A-1"}`, ValidateOnly: true},
		calltest.Request("toolu_blocked", "blocked"),
	} {
		if res := s.Call(req); res.GetTraceparent() != "" {
			t.Errorf("%s: traceparent is %q", req.GetToolUseId(), res.GetTraceparent())
		}
	}
	if len(callsOf(spans)) != 4 {
		t.Errorf("%d spans", len(callsOf(spans)))
	}
	withTracer(t, s, notrace.NewTracerProvider().Tracer("test"))
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled}))
	for range 2 {
		if res := s.Execute(ctx, call.NewRequest("", calltest.Request("toolu_4", "pay"))); res.GetIsError() || res.GetTraceparent() != "" {
			t.Errorf("without a tracer: %v", res)
		}
	}
}

// The span of a call that a breaker kept from being made says which one: that of the tool,
// or that of the connection, by the name that the metric has.
func TestTheSpanNamesTheBreakerThatIsOpen(t *testing.T) {
	of, connection := calltest.WithBreaker(1), calltest.WithBreaker(1)
	s := calltest.New(t,
		calltest.NewRoute(t, "lookup", tool.ReadOnly, calltest.Answers("ok"), of),
		calltest.NewRoute(t, "find", tool.ReadOnly, calltest.Answers("ok"), connection),
		calltest.NewRoute(t, "works", tool.ReadOnly, calltest.Answers("ok"), calltest.WithBreaker(1)),
		calltest.NewRoute(t, "flaky", tool.ReadOnly, calltest.Fails(calltest.Always, calltest.TimedOut), calltest.WithBreaker(1)))
	routes := s.Catalog.Snapshot()
	for name, want := range map[string]string{"lookup": "shop/lookup", "find": "shop", "works": "", "flaky": "shop/flaky"} {
		route, _ := routes.Lookup(name)
		switch name {
		case "lookup":
			trip(t, route.Breaker, 1)
		case "find":
			trip(t, route.Connection, 1)
		}
		spans := traced(t, s)
		res := s.Call(calltest.Request("toolu_"+name, name))
		if got := attributeOf(callsOf(spans)[0], "sidecall.breaker"); got != want {
			t.Errorf("%s: the span names %q, want %q: %v", name, got, want, res)
		}
	}
}

// That nobody could be asked about a call, because a breaker was open, says nothing of
// the call.
func TestAVerificationNamesNoBreaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		up := new(shop)
		s := up.sidecar(t, func(_, look *catalog.Route) { calltest.WithBreaker(1)(look) })
		spans := traced(t, s)
		route, _ := s.Catalog.Snapshot().Lookup("get_order")
		trip(t, route.Breaker, 1)
		if res := s.Call(calltest.Request("toolu_1", "refund")); calltest.Code(res) != tool.CodeOutcomeUnknown || up.looks.Load() > 0 {
			t.Fatalf("%d looks, %v", up.looks.Load(), res)
		}
		if got := attributeOf(callsOf(spans)[0], "sidecall.breaker"); got != "" {
			t.Errorf("the span names %q", got)
		}
	})
}

// The caller's baggage is for tools that are trusted; its span is for all.
func TestBaggageIsForTrustedTools(t *testing.T) {
	var got []string
	b := &calltest.Backend{Do: func(ctx context.Context, _ backend.Invocation) (tool.Reply, *tool.Failure) {
		got = append(got, baggage.FromContext(ctx).String())
		if !trace.SpanContextFromContext(ctx).IsValid() {
			t.Error("the span is lost")
		}
		return tool.Reply{Text: []byte("ok")}, nil
	}}
	s := calltest.New(t,
		calltest.NewRoute(t, "own", tool.ReadOnly, b),
		calltest.NewRoute(t, "foreign", tool.ReadOnly, b, func(r *catalog.Route) { r.Tool.Policy.Untrusted = true }))
	carried, err := baggage.Parse("tenant=acme")
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	ctx = baggage.ContextWithBaggage(ctx, carried)
	for _, name := range []string{"own", "foreign"} {
		s.Execute(ctx, call.NewRequest("", calltest.Request("toolu_"+name, name)))
	}
	if len(got) != 2 || got[0] != "tenant=acme" || got[1] != "" {
		t.Errorf("trusted, untrusted: %q", got)
	}
}
