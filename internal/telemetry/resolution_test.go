package telemetry

import (
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sidecall/sidecall/internal/tool"
)

// A verification is a span of its own below that of the call it is about, and
// says which tool was asked.
func TestAVerificationHasASpanOfItsOwn(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	r, err := NewRecorder(provider.Tracer("test"), noop.NewMeterProvider().Meter("test"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, call := r.StartCall(t.Context(), CallInfo{Tool: "refund", Registered: true, CallID: tool.CallID{ID: "toolu_1"}}, time.Now())
	v := r.StartVerification(ctx, VerificationInfo{With: "get_order", Tool: "refund", CallID: tool.CallID{ID: "toolu_1"}})
	attemptCtx, end := v.Call.StartAttempt(ctx, "shop", 1)
	end(nil)
	v.End(attemptCtx, "happened", nil)
	call.End(ctx, CallEnd{Outcome: "ok"})
	ended := spans.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans, want 2", len(ended))
	}
	asked, whole := ended[0], ended[1]
	if asked.Name() != "verification" || whole.Name() != "execute_tool refund" || asked.Parent().SpanID() != whole.SpanContext().SpanID() {
		t.Errorf("%s below %s", asked.Name(), whole.Name())
	}
	has := map[string]string{}
	for _, attribute := range asked.Attributes() {
		has[string(attribute.Key)] = attribute.Value.String()
	}
	for key, want := range map[string]string{"sidecall.attempt.kind": "verification", "gen_ai.tool.name": "get_order", "sidecall.backend": "shop"} {
		if has[key] != want {
			t.Errorf("%s is %q, want %q", key, has[key], want)
		}
	}
}
