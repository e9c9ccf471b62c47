// Package httptool is the http backend: tools that are requests to an HTTP API.
//
// What a call becomes is decided when its tool is registered. A Spec says which
// argument goes where; Register compiles it, so that a mistake in it is an
// error at start and a call only fills in values. Values are escaped: an
// argument changes neither the host, nor the number of path segments, nor which
// headers are sent, and one that cannot be sent that way is refused with
// INVALID_ARGS before anything is.
//
// # Exactly one request per attempt
//
// net/http sends a request a second time by itself when a reused connection
// breaks and the request has no body, or GetBody, and a method or an
// Idempotency-Key header that makes it look harmless; HTTP/2 adds refused
// streams, GOAWAY and even PROTOCOL_ERROR. Sidecall has one retry layer, and it
// is not this one. So no request here has a nil body or GetBody: where there is
// nothing to send the body is an empty reader, which both transports treat as
// not replayable (see request.build). Transports are used without
// http.Client, so no redirect is followed unless follow does it.
//
// # What a failure proves
//
// The connections count the bytes that were written to them, and the trip of a
// request tells which it got and whether writing has begun (package conn). With
// that backend.Classify knows whether anything was sent. For HTTP/2, where
// requests share a connection, everything after the connection was found counts
// as sent, unless the peer says otherwise.
package httptool

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/conn"
)

// Backend is an HTTP API whose tools are registered one by one. It implements
// backend.Backend.
type Backend struct {
	*upstream

	endpoints sync.Map // tool name → *endpoint
}

// upstream is the API itself, and the connections to it.
type upstream struct {
	name      string
	origin    *origin
	transport *http.Transport
	conns     *conn.Set
	// shared says that requests may share a connection, over HTTP/2.
	shared   bool
	mask     func(text string) string // see Config.Mask
	inFlight sync.WaitGroup
}

var _ backend.Backend = (*Backend)(nil)

// New returns a backend without tools. It connects to nothing.
func New(cfg Config) (*Backend, error) {
	cfg = cfg.withDefaults()
	origin, err := newOrigin(cfg)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", cfg.Name, err)
	}
	through, err := destinationOf(cfg)
	if err != nil {
		return nil, fmt.Errorf("backend %s: base_url: %w", cfg.Name, err)
	}
	conns := conn.NewSet()
	return &Backend{upstream: &upstream{
		name:      cfg.Name,
		origin:    origin,
		transport: newTransport(cfg, conns, through),
		conns:     conns,
		shared:    origin.scheme == "https" && !cfg.DisableHTTP2,
		mask:      cfg.Mask,
	}}, nil
}

// WithoutTools returns the same backend, by the same connections, for other tools: the
// specs of one are nothing to the other. Close of either closes both.
func (b *Backend) WithoutTools() *Backend { return &Backend{upstream: b.upstream} }

// Register compiles a spec and makes it the one of the tool from now on. Calls
// in flight keep the one they began with. The error says what is wrong with
// which part of the spec.
func (b *Backend) Register(toolName string, spec Spec) error {
	compiled, err := compile(b.origin, spec)
	if err != nil {
		return fmt.Errorf("tool %s: %w", toolName, err)
	}
	b.endpoints.Store(toolName, compiled)
	return nil
}

// Close closes the idle connections, waits for calls in flight, and closes
// what they still use when ctx ends.
func (b *Backend) Close(ctx context.Context) error {
	b.transport.CloseIdleConnections()
	idle := context.AfterFunc(ctx, b.conns.Close) // without connections, old or new, calls fail at once
	b.inFlight.Wait()
	var err error
	if !idle() {
		err = fmt.Errorf("backend %s: closed with calls in flight: %w", b.name, context.Cause(ctx))
	}
	// Calls that ended meanwhile left their connections idle.
	b.transport.CloseIdleConnections()
	return err
}
