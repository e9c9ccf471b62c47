package httptool

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// request is what one call becomes, short of a context.
type request struct {
	prebuilt *http.Request
	origin   *origin
	url      url.URL
	header   http.Header
	body     []byte // nil when there is none
}

// build makes the http.Request of one attempt. It has a body that is neither
// nil nor http.NoBody, and no GetBody: that is what tells both transports of
// net/http that they may not send it a second time by themselves, whatever its
// method and headers (Request.isReplayable, http2shouldRetryRequest).
//
// On the wire a request without a body looks as it should. For GET, HEAD and
// DELETE the transfer coding "identity" makes net/http write neither a length
// nor a coding; for the others it writes an empty chunked body, because some
// servers insist on knowing where a POST ends.
func (r *request) build(ctx context.Context) *http.Request {
	req := r.prebuilt.WithContext(ctx)
	req.URL = &r.url
	req.Header = r.header
	// A NopCloser over a bytes.Reader is known to net/http as memory, so header
	// and body leave in one packet.
	req.Body = io.NopCloser(bytes.NewReader(r.body))
	req.ContentLength = int64(len(r.body))
	return req
}

// request fills in the values of a call. A violation is one of the arguments
// that the request cannot carry.
func (at *endpoint) request(ctx context.Context, call backend.Invocation) (*request, *tool.Failure) {
	f := filler{args: call.Parsed}
	target := f.target(at)
	header := f.header(ctx, at, call.IdempotencyKey)
	if f.violation != nil {
		return nil, f.violation
	}
	req := &request{
		prebuilt: at.prebuilt,
		origin:   at.origin,
		url:      at.origin.url(target),
		header:   header,
	}
	body, failure := f.body(at, call.Args)
	if failure != nil {
		return nil, failure
	}
	req.body = body
	at.describe(ctx, f.args)
	return req, nil
}

// header is the header of the request: what all requests of the tool share,
// the idempotency key, arguments, and the span and baggage of ctx. When the
// call adds nothing it is the endpoint's own, which nobody writes to.
func (f *filler) header(ctx context.Context, at *endpoint, key string) http.Header {
	keyed := at.idempotencyHeader != "" && key != ""
	traced := trace.SpanContextFromContext(ctx).IsValid() || baggage.FromContext(ctx).Len() > 0
	if !keyed && !traced && len(at.headers) == 0 {
		return at.header
	}
	header := make(http.Header, len(at.header)+len(at.headers)+3)
	maps.Copy(header, at.header)
	if keyed {
		header[at.idempotencyHeader] = []string{key}
	}
	if traced {
		otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(header))
	}
	for _, h := range at.headers {
		value, present := f.args[h.argument]
		if !present || value == nil {
			continue
		}
		text, ok := scalar(value)
		switch {
		case !ok:
			f.refuse(h.argument, "it is sent as a header, so it must be a string, number or boolean", "Send one plain value.", value)
		case hasControl(text):
			f.refuse(h.argument, "it is sent as a header, which cannot have line breaks or control characters",
				"Send it as one line of text.", value)
		case len(text) > maxHeaderValue:
			f.refuse(h.argument, "it is sent as a header, which can have 8192 bytes at most", "Send a shorter value.", value)
		}
		header[h.name] = []string{text}
	}
	return header
}
