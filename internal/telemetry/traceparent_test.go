package telemetry

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// What comes in and goes on is what OTEL_PROPAGATORS names: W3C Trace Context and Baggage
// where it says nothing, or nothing that there is.
func TestThePropagatorIsThatOfTheStandardVariable(t *testing.T) {
	w3c := []string{"baggage", "traceparent", "tracestate"}
	for said, want := range map[string][]string{
		"": w3c, "tracecontext,baggage": w3c, "unheard_of": w3c,
		"tracecontext": {"traceparent", "tracestate"},
		"b3":           {"b3"},
		"none":         nil,
	} {
		t.Setenv("OTEL_PROPAGATORS", said)
		started, err := Start(t.Context(), Service{Version: "test"}, slog.DiscardHandler)
		if err != nil {
			t.Fatal(err)
		}
		if fields := slices.Sorted(slices.Values(otel.GetTextMapPropagator().Fields())); !slices.Equal(fields, want) {
			t.Errorf("OTEL_PROPAGATORS=%s: %q, want %q", said, fields, want)
		}
		if err := started.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// Where nothing is traced, what spans say costs nothing, also for a caller with a span.
func TestWhatSpansSayCostsNothingWithoutATracer(t *testing.T) {
	r, err := NewRecorder(noop.NewTracerProvider().Tracer("test"), metricnoop.NewMeterProvider().Meter("test"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	_, call := r.StartCall(ctx, CallInfo{Tool: "refund", Registered: true}, time.Now())
	if allocated := testing.AllocsPerRun(100, func() {
		call.BlockedBy("shop")
		if call.Traceparent() != "" {
			t.Error("the span of the caller is taken for the call's own")
		}
	}); allocated > 0 {
		t.Errorf("%v allocations", allocated)
	}
}
