package server

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// The span and the baggage of a caller reach the attempt, in the form that the propagator
// has, and each without the other too.
func TestTheTraceContextOfARequestComesIn(t *testing.T) {
	const parent, span = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00f067aa0ba902b7"
	for name, c := range map[string]struct {
		propagators   string
		sent          metadata.MD
		span, baggage string
	}{
		"both":            {"", metadata.Pairs("traceparent", parent, "baggage", "tenant=acme"), span, "tenant=acme"},
		"a span":          {"", metadata.Pairs("traceparent", parent), span, ""},
		"baggage":         {"", metadata.Pairs("baggage", "tenant=acme"), "0000000000000000", "tenant=acme"},
		"baggage twice":   {"", metadata.Pairs("baggage", "tenant=acme", "baggage", "tenant=other"), "0000000000000000", "tenant=other"},
		"a part is none":  {"", metadata.Pairs("traceparent", parent, "baggage", "tenant=acme,token=sk live"), span, ""},
		"nothing":         {"", nil, "0000000000000000", ""},
		"another form":    {"b3", metadata.Pairs("b3", "4bf92f3577b34da6a3ce929d0e0e4736-"+span+"-1", "baggage", "tenant=acme"), span, ""},
		"OpenTracing's":   {"ottrace", metadata.Pairs("ot-tracer-traceid", "a3ce929d0e0e4736", "ot-tracer-spanid", span, "ot-tracer-sampled", "true", "ot-baggage-tenant", "acme"), span, "tenant=acme"},
		"nothing is read": {"none", metadata.Pairs("traceparent", parent, "baggage", "tenant=acme"), "0000000000000000", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_PROPAGATORS", c.propagators)
			var span, carried string
			b := &calltest.Backend{Do: func(ctx context.Context, _ backend.Invocation) (tool.Reply, *tool.Failure) {
				span, carried = trace.SpanContextFromContext(ctx).SpanID().String(), baggage.FromContext(ctx).String()
				return tool.Reply{Text: []byte("ok")}, nil
			}}
			client := dial(t, calltest.New(t, calltest.NewRoute(t, "works", tool.ReadOnly, b))) // starts telemetry
			if _, err := client.ExecuteTool(metadata.NewOutgoingContext(t.Context(), c.sent), calltest.Request("toolu_1", "works")); err != nil {
				t.Fatal(err)
			}
			if span != c.span {
				t.Errorf("the span is %s, want %s", span, c.span)
			}
			if carried != c.baggage {
				t.Errorf("the baggage is %q, want %q", carried, c.baggage)
			}
		})
	}
}
