package sidecall_test

import (
	"context"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// listening keeps the trace context of each request.
type listening struct {
	sidecallv1.UnimplementedToolServiceServer
	heard []map[string][]string
}

func (l *listening) ExecuteTool(ctx context.Context, _ *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	of := make(map[string][]string)
	for _, key := range []string{"traceparent", "tracestate", "baggage"} {
		if values := sent.Get(key); len(values) > 0 {
			of[key] = values
		}
	}
	l.heard = append(l.heard, of)
	return &sidecallv1.ExecuteToolResponse{}, nil
}

// The span and the baggage of the context go with the request, unless the program sends
// one itself.
func TestARequestCarriesTheSpanOfItsContext(t *testing.T) {
	l, pipe := &listening{}, bufconn.Listen(1<<16)
	server := grpc.NewServer()
	sidecallv1.RegisterToolServiceServer(server, l)
	served := make(chan error, 1)
	go func() { served <- server.Serve(pipe) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	client := dial(t, "passthrough:///fake", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))

	state, err := trace.ParseTraceState("vendor=x")
	if err != nil {
		t.Fatal(err)
	}
	within := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0x4b, 15: 0x36}, SpanID: trace.SpanID{0xf0, 7: 0xb7}, TraceFlags: trace.FlagsSampled, TraceState: state,
	}))
	carried, err := baggage.Parse("tenant=acme")
	if err != nil {
		t.Fatal(err)
	}
	for _, ctx := range []context.Context{t.Context(), within, baggage.ContextWithBaggage(t.Context(), carried), metadata.AppendToOutgoingContext(within, "traceparent", "its own")} {
		if _, err := client.ExecuteTool(ctx, sidecall.Call{ToolUseID: "1", ToolName: "t", ConversationID: "c"}); err != nil {
			t.Fatal(err)
		}
	}
	want := []map[string][]string{
		{},
		{"traceparent": {"00-4b000000000000000000000000000036-f0000000000000b7-01"}, "tracestate": {"vendor=x"}},
		{"baggage": {"tenant=acme"}},
		{"traceparent": {"its own"}},
	}
	if diff := cmp.Diff(want, l.heard); diff != "" {
		t.Error(diff)
	}
}
