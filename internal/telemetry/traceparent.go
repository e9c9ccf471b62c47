package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Traceparent is the span of the call as W3C Trace Context has it; empty where nothing is
// traced.
func (c *Call) Traceparent() string {
	if !c.recorder.tracing {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), c.span), carrier)
	return carrier[traceparent]
}
