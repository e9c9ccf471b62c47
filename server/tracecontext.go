package server

import (
	"context"
	"maps"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// withTraceContext takes the caller's span and baggage out of the request's metadata, in
// the form that OTEL_PROPAGATORS names: a call's span is a child of the agent's.
func withTraceContext(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	return next(otel.GetTextMapPropagator().Extract(ctx, incoming{ctx}), req)
}

const baggageHeader = "baggage"

// incoming lets a propagator read the metadata of a request, one key at a time: all of it
// would be copied.
type incoming struct{ context.Context }

// Get implements propagation.TextMapCarrier.
func (i incoming) Get(key string) string {
	if values := i.Values(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Values implements propagation.ValuesGetter. Baggage that is none is left out here: the
// propagator would complain of it with its values.
func (i incoming) Values(key string) []string {
	values := metadata.ValueFromIncomingContext(i, key)
	if key == baggageHeader {
		values = slices.DeleteFunc(values, func(value string) bool {
			_, err := baggage.Parse(value)
			return err != nil
		})
	}
	return values
}

// Set implements propagation.TextMapCarrier. What has come in is not written to.
func (incoming) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (i incoming) Keys() []string {
	all, _ := metadata.FromIncomingContext(i)
	return slices.Collect(maps.Keys(all))
}
