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
// The transport counts the bytes that a connection has written (countedConn),
// and the trace of an attempt (attempt) tells which connection it got and
// whether writing has begun. With that backend.Classify knows whether anything
// was sent. For HTTP/2, where requests share a connection, everything after the
// connection was found counts as sent, unless the peer says otherwise.
package httptool

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/failpoint"
	"github.com/sidecall/sidecall/tool"
)

// Config describes one HTTP API. Zero durations and numbers stand for the
// defaults.
type Config struct {
	// Name of the backend, for messages.
	Name string
	// BaseURL is put before the path of every tool: http or https, host, and
	// maybe a path. No user, query or fragment.
	BaseURL string
	// Headers are sent with every request; secrets are resolved. Their values
	// are kept out of error messages. Host sets the Host header.
	Headers map[string]string
	// AllowPrivate allows loopback and private addresses. Link-local and
	// metadata addresses are always refused (backend.GuardAddresses).
	AllowPrivate bool
	// Proxy is a forward proxy; nil means none, whatever the environment says.
	// Addresses are then resolved, and have to be guarded, by the proxy.
	Proxy *url.URL
	// MaxConns bounds the connections; 0 means no bound. Calls beyond it wait,
	// at most until their context ends.
	MaxConns int
	// DisableHTTP2 keeps to HTTP/1.1 where an https upstream offers HTTP/2.
	DisableHTTP2 bool
	// TLS is how an https upstream is verified, and the client certificate.
	TLS *tls.Config
	// ConnectTimeout bounds DNS and TCP connect, and once more the TLS
	// handshake. Default 10 s.
	ConnectTimeout time.Duration
	// IdleTimeout is how long an unused connection is kept. The default of 4 s
	// is below the 5 s after which common servers (Node, uvicorn) close theirs:
	// a request that crosses such a close may or may not have run, and a new
	// connection costs less than that doubt.
	IdleTimeout time.Duration
	// MaxHeaderBytes bounds the header of a response. Default 64 KiB.
	MaxHeaderBytes int64
}

const (
	defaultConnectTimeout = 10 * time.Second
	defaultIdleTimeout    = 4 * time.Second
	defaultMaxHeaderBytes = 64 << 10
)

func (c Config) withDefaults() Config {
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	if c.IdleTimeout <= 0 {
		c.IdleTimeout = defaultIdleTimeout
	}
	if c.MaxHeaderBytes <= 0 {
		c.MaxHeaderBytes = defaultMaxHeaderBytes
	}
	return c
}

// Backend is an HTTP API whose tools are registered one by one. It implements
// backend.Backend.
type Backend struct {
	name      string
	origin    *origin
	transport *http.Transport
	conns     *connections
	redact    *redactor
	endpoints sync.Map // tool name → *endpoint
	inFlight  sync.WaitGroup
}

var _ backend.Backend = (*Backend)(nil)

// New returns a backend without tools. It connects to nothing.
func New(cfg Config) (*Backend, error) {
	cfg = cfg.withDefaults()
	origin, err := newOrigin(cfg)
	if err != nil {
		return nil, fmt.Errorf("backend %s: %w", cfg.Name, err)
	}
	conns := newConnections()
	return &Backend{
		name:      cfg.Name,
		origin:    origin,
		transport: newTransport(cfg, conns),
		conns:     conns,
		redact:    newRedactor(cfg.Headers),
	}, nil
}

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

// Forget removes a tool. Calls in flight go on.
func (b *Backend) Forget(toolName string) { b.endpoints.Delete(toolName) }

// Invoke sends one request. It implements backend.Backend.
func (b *Backend) Invoke(ctx context.Context, call backend.Invocation) (backend.Reply, *tool.Failure) {
	b.inFlight.Add(1)
	defer b.inFlight.Done()

	found, ok := b.endpoints.Load(call.Tool)
	if !ok {
		return backend.Reply{}, &tool.Failure{
			Code: tool.CodeInternal, Evidence: tool.NotExecuted, ErrorType: "not_registered", CallerFault: true,
			Err: fmt.Errorf("tool %s is not registered at backend %s", call.Tool, b.name),
		}
	}
	at := found.(*endpoint) //nolint:forcetypeassert // only Register stores
	req, violation := at.request(ctx, call)
	if violation != nil {
		return backend.Reply{}, violation
	}
	return b.exchange(ctx, req, call)
}

// exchange makes the request and reads the answer, following harmless
// redirects.
func (b *Backend) exchange(ctx context.Context, req *request, call backend.Invocation) (backend.Reply, *tool.Failure) {
	for hop := 0; ; hop++ {
		var try attempt
		failpoint.Hit(failpoint.RequestUnsent)
		resp, err := b.transport.RoundTrip(req.build(try.watch(ctx)))
		if err != nil {
			return backend.Reply{}, backend.Classify(ctx, err, try.wrote())
		}
		failpoint.Hit(failpoint.ResponseHeaders)
		if next := follow(resp, req, call.Effect, hop); next != nil {
			discard(resp.Body)
			req = next
			continue
		}
		reply, failure := b.read(ctx, resp, call)
		failpoint.Hit(failpoint.ResponseRead)
		return reply, failure
	}
}

// Close closes the idle connections, waits for calls in flight, and closes
// what they still use when ctx ends.
func (b *Backend) Close(ctx context.Context) error {
	b.transport.CloseIdleConnections()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		b.inFlight.Wait()
	}()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = fmt.Errorf("backend %s: closed with calls in flight: %w", b.name, context.Cause(ctx))
		b.conns.closeAll()
		<-idle // without connections, old or new, they fail at once
	}
	// Calls that ended meanwhile left their connections idle.
	b.transport.CloseIdleConnections()
	return err
}
