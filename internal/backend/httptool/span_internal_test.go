package httptool

import (
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// Where nothing is traced, nothing is allocated for spans and headers, also for a caller
// with a span.
func TestASpanThatNobodyRecordsCostsNothing(t *testing.T) {
	b, err := New(Config{Name: "shop", BaseURL: "http://shop.invalid/api"})
	if err != nil {
		t.Fatal(err)
	}
	at, err := compile(b.origin, Spec{Method: http.MethodGet, Path: "/orders/{id}"})
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]any{"id": "A-1", "verbose": true}
	ctx := t.Context()
	within := trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	answer := &http.Response{StatusCode: http.StatusOK}
	if allocated := testing.AllocsPerRun(100, func() {
		at.describe(ctx, args)
		at.describe(within, args)
		answered(within, answer)
		(&filler{args: args}).header(ctx, at, "")
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
