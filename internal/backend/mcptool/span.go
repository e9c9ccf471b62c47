package mcptool

import (
	"context"
	"fmt"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// describe says on the span of an attempt what OpenTelemetry's conventions for MCP have
// of the request. It is no span of its own, and no gen_ai.operation.name: the call has one
// already. The session's id stays out, since to some servers it is as good as a
// password.
func (s *session) describe(ctx context.Context, a seen) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attributes := make([]attribute.KeyValue, 0, 6)
	attributes = append(attributes, attribute.String("mcp.method.name", methodCall))
	if opened := s.client.InitializeResult(); opened != nil && opened.ProtocolVersion != "" {
		attributes = append(attributes, attribute.String("mcp.protocol.version", opened.ProtocolVersion))
	}
	if s.conn != nil {
		attributes = append(attributes, attribute.String("network.transport", "pipe"))
	} else {
		attributes = append(attributes, attribute.String("network.transport", "tcp"), attribute.String("network.protocol.name", "http"))
	}
	if a.id.IsValid() {
		attributes = append(attributes, attribute.String("jsonrpc.request.id", fmt.Sprint(a.id.Raw())))
	}
	if a.outcome == refused && a.rpc != nil {
		attributes = append(attributes, attribute.String("rpc.response.status_code", strconv.FormatInt(a.rpc.Code, 10)))
	}
	span.SetAttributes(attributes...)
}
