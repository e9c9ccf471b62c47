package mcptool

import (
	"maps"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sidecall/sidecall/internal/backend"
)

// An attempt's span says which request it was; what the ids are is the peer's to read.
func TestTheSpanOfAnAttemptOverStdio(t *testing.T) {
	r := run(t, stdio(t, "plain", newLedger(t)))
	r.up()
	spans := tracetest.NewInMemoryExporter()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)).Tracer("test")
	ctx, span := tracer.Start(t.Context(), "attempt")
	if _, f := r.Invoke(ctx, backend.Invocation{Target: "meta", Args: []byte(`{}`)}); f != nil {
		t.Fatal(f)
	}
	span.End()
	got := make(map[string]string)
	for _, a := range spans.GetSpans()[0].Attributes {
		got[string(a.Key)] = a.Value.String()
	}
	if got["jsonrpc.request.id"] == "" {
		t.Errorf("the request has no id: %v", got)
	}
	delete(got, "jsonrpc.request.id")
	want := map[string]string{
		"mcp.method.name": "tools/call", "network.transport": "pipe",
		"mcp.protocol.version": r.current().client.InitializeResult().ProtocolVersion,
	}
	if !maps.Equal(got, want) {
		t.Errorf("the span has %v, want %v", got, want)
	}
}
