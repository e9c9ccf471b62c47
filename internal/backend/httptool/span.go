package httptool

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// withheld stands in a span for what may be secret or somebody's: the word that the
// conventions have for it.
const withheld = "REDACTED"

// describe says on the span of an attempt what OpenTelemetry's conventions for HTTP
// clients have of the request. Of a redirect that is followed it says no more than of the
// request that was asked for.
func (at *endpoint) describe(ctx context.Context, args map[string]any) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("http.request.method", at.method),
		attribute.String("server.address", at.origin.address),
		attribute.Int("server.port", at.origin.port),
		attribute.String("url.full", at.shown(args)),
	)
}

// answered says on the span which status the answer has.
func answered(ctx context.Context, resp *http.Response) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	}
}

// shown is the URL of a request without any value of an argument or of a query. What
// remains stands so in the config, but for the names of arguments.
func (at *endpoint) shown(args map[string]any) string {
	var b strings.Builder
	b.WriteString(at.origin.shown)
	for _, seg := range at.path.segments {
		b.WriteByte('/')
		for _, part := range seg.parts {
			if part.argument != "" {
				b.WriteString(withheld)
			}
			b.WriteString(part.literal)
		}
	}
	mark := "?"
	for _, name := range at.parameters(args) {
		b.WriteString(mark + name + "=" + withheld)
		mark = "&"
	}
	return b.String()
}

// parameters are the names in the query of a request, as they are sent.
func (at *endpoint) parameters(args map[string]any) []string {
	names := at.path.parameters()
	for _, q := range at.query {
		if args[q.argument] != nil {
			names = append(names, q.name)
		}
	}
	if at.restInQuery {
		f := filler{args: args}
		for _, name := range f.rest(at.used) {
			if args[name] != nil {
				names = append(names, string(appendEscaped(nil, name)))
			}
		}
	}
	return names
}
