package sidecall

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// w3c is what the sidecar reads unless it is told otherwise, whatever the program has set.
var w3c = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// sendSpan sends the span of the context along, and its baggage, as W3C has them: the
// sidecar's span is its child. A program that does so itself is left alone.
func sendSpan(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	carried := propagation.MapCarrier{}
	if w3c.Inject(ctx, carried); len(carried) > 0 && !sends(ctx, w3c.Fields()) {
		var pairs []string
		for key, value := range carried {
			pairs = append(pairs, key, value)
		}
		ctx = metadata.AppendToOutgoingContext(ctx, pairs...)
	}
	return invoke(ctx, method, req, reply, conn, opts...)
}

// sends reports that a request has one of the fields already.
func sends(ctx context.Context, fields []string) bool {
	sent, _ := metadata.FromOutgoingContext(ctx)
	for _, field := range fields {
		if len(sent.Get(field)) > 0 {
			return true
		}
	}
	return false
}
