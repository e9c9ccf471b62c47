package httptool

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/backend"
)

// idleConns is how many unused connections are kept. It is as high as the calls
// that a busy sidecar has in flight, so that they need not connect again.
const idleConns = 1024

func newTransport(cfg Config, conns *connections) *http.Transport {
	dialer := &net.Dialer{
		Timeout:   cfg.ConnectTimeout,
		KeepAlive: 15 * time.Second,
		Control:   backend.GuardAddresses(cfg.AllowPrivate),
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!cfg.DisableHTTP2)
	t := &http.Transport{
		DialContext:            conns.dialer(dialer.DialContext),
		TLSClientConfig:        cfg.TLS.Clone(),
		TLSHandshakeTimeout:    cfg.ConnectTimeout,
		Protocols:              protocols,
		HTTP2:                  backend.HTTP2(),
		MaxIdleConnsPerHost:    idleConns,
		MaxConnsPerHost:        cfg.MaxConns,
		IdleConnTimeout:        cfg.IdleTimeout,
		MaxResponseHeaderBytes: cfg.MaxHeaderBytes,
	}
	if cfg.Proxy != nil {
		t.Proxy = http.ProxyURL(cfg.Proxy)
	}
	return t
}

// connections are the open connections of a backend, so that Close can end
// them.
type connections struct {
	mu     sync.Mutex
	open   map[*countedConn]struct{}
	closed bool
	// done ends dials that are under way when the backend closes.
	done context.Context
	end  context.CancelFunc
}

func newConnections() *connections {
	done, end := context.WithCancel(context.Background())
	return &connections{open: make(map[*countedConn]struct{}), done: done, end: end}
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

var errClosed = errors.New("the backend is closed")

// dialer wraps dial so that every connection is counted and can be closed.
func (c *connections) dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.done, cancel)()
		conn, err := dial(ctx, network, address)
		switch {
		case err != nil && c.done.Err() != nil:
			return nil, &net.OpError{Op: "dial", Net: network, Err: errClosed}
		case err != nil:
			return nil, err
		}
		counted := &countedConn{Conn: conn, owner: c}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			return nil, errors.Join(&net.OpError{Op: "dial", Net: network, Err: errClosed}, conn.Close())
		}
		c.open[counted] = struct{}{}
		return counted, nil
	}
}

// closeAll closes what is open and refuses what would be opened.
func (c *connections) closeAll() {
	c.end()
	c.mu.Lock()
	c.closed = true
	open := make([]*countedConn, 0, len(c.open))
	for conn := range c.open {
		open = append(open, conn)
	}
	c.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close() // its reader and writer see the error
	}
}

func (c *connections) forget(conn *countedConn) {
	c.mu.Lock()
	delete(c.open, conn)
	c.mu.Unlock()
}

// countedConn counts the bytes that were handed to the network.
type countedConn struct {
	net.Conn
	owner   *connections
	written atomic.Int64
}

// Write implements net.Conn.
func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.owner.forget(c)
	return c.Conn.Close()
}

// attempt watches one round trip, to know afterwards whether any of the request
// was sent.
type attempt struct {
	trace httptrace.ClientTrace
	// conn is the connection that the request got; before is what had been
	// written to it until then. Set before RoundTrip returns.
	conn   net.Conn
	before int64
	gotten int
	// began is set when HTTP/1 has begun, and ended, to write the request.
	began atomic.Bool
}

// watch returns a context that reports to the attempt.
func (a *attempt) watch(ctx context.Context) context.Context {
	a.trace.GotConn = a.gotConn
	a.trace.WroteRequest = a.wroteRequest
	return httptrace.WithClientTrace(ctx, &a.trace)
}

func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	a.gotten++
	a.conn = info.Conn
	if counted := unwrap(info.Conn); counted != nil {
		a.before = counted.written.Load()
	}
}

func (a *attempt) wroteRequest(httptrace.WroteRequestInfo) { a.began.Store(true) }

// wrote reports, once RoundTrip has failed, whether any of the request may have
// been sent. It relies on HTTP/1 round trips returning an error only after
// their writer has ended (persistConn.mapRoundTripError), and on a connection
// serving one of them at a time. For HTTP/2 neither holds.
func (a *attempt) wrote() bool {
	switch {
	case a.gotten == 0:
		return false
	case a.gotten > 1 || speaksHTTP2(a.conn):
		return true
	case !a.began.Load():
		return false
	}
	counted := unwrap(a.conn)
	// A TLS connection says goodbye when it closes, which counts as written.
	return counted == nil || counted.written.Load() != a.before
}

// speaksHTTP2 reports whether the connection carries HTTP/2.
func speaksHTTP2(conn net.Conn) bool {
	secure, ok := conn.(interface{ ConnectionState() tls.ConnectionState })
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}

// unwrap returns the counted connection below TLS; nil when there is none.
func unwrap(conn net.Conn) *countedConn {
	for range 4 {
		switch c := conn.(type) {
		case *countedConn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
	return nil
}
