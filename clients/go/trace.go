package sidecall

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// sendSpan sends the span of the context along, as W3C trace context: the sidecar's is
// its child. A program that does so itself is left alone.
func sendSpan(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if trace.SpanContextFromContext(ctx).IsValid() {
		sent, _ := metadata.FromOutgoingContext(ctx)
		if len(sent.Get("traceparent")) == 0 {
			span := propagation.MapCarrier{}
			propagation.TraceContext{}.Inject(ctx, span)
			var pairs []string
			for key, value := range span {
				pairs = append(pairs, key, value)
			}
			ctx = metadata.AppendToOutgoingContext(ctx, pairs...)
		}
	}
	return invoke(ctx, method, req, reply, conn, opts...)
}
