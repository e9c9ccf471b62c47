package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceparent is the field of W3C Trace Context. The contract has it in messages, whatever
// OTEL_PROPAGATORS says of headers.
const traceparent = "traceparent"

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

// spanOf is the span that a Traceparent names; one that is not valid where it names none.
func spanOf(parent string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: parent})
	return trace.SpanContextFromContext(ctx)
}
