package conn

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"sync/atomic"
)

// Conn is a connection that knows what was written to it, whether anything has
// come unasked, and which request waits to be written.
type Conn struct {
	net.Conn
	set    *Set
	socket socket
	// written and received count bytes; taking is true while some may have left
	// the kernel and are not counted.
	written, received atomic.Int64
	taking            atomic.Bool
	// waiting is the trip whose first byte the next write brings.
	waiting atomic.Pointer[Trip]

	// reading is one more than what had been received when its reader began to
	// wait for bytes, 0 while it does not. closed is true once nobody may write
	// any more. turned is closed at the next change to either.
	reading  atomic.Int64
	closed   atomic.Bool
	turned   atomic.Pointer[chan struct{}]
	protocol atomic.Uint32
	// serves is set once a request has got it.
	serves atomic.Bool
}

func newConn(raw net.Conn, set *Set) *Conn {
	c := &Conn{Conn: raw, set: set}
	c.socket.on(c)
	return c
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	c.reading.Store(1 + c.received.Load())
	c.turn()
	n, err := c.socket.read(b)
	c.reading.Store(0)
	return n, err
}

// Write implements net.Conn. The first bytes of a request pass only with the
// leave of its trip.
func (c *Conn) Write(b []byte) (int, error) {
	if t := c.waiting.Load(); t != nil {
		if err := t.leave(c); err != nil {
			return 0, err
		}
		c.waiting.Store(nil)
	}
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.closed.Store(true)
	c.turn()
	c.set.forget(c)
	return c.Conn.Close()
}

// turn wakes who waits for a change.
func (c *Conn) turn() {
	if turned := c.turned.Swap(nil); turned != nil {
		close(*turned)
	}
}

// listens waits until the reader of a kept connection waits for bytes: then it
// has found nothing behind the last answer. received is how many bytes it had
// seen when it began to wait: one more, and something has come. false means that
// it has found something, and closed the connection, or that ctx has ended. The
// reader gets there by itself, since a connection is kept only once the last
// answer was read to its end.
func (c *Conn) listens(ctx context.Context) (received int64, ok bool) {
	for {
		if c.closed.Load() {
			return 0, false
		}
		if since := c.reading.Load(); since > 0 {
			return since - 1, true
		}
		turned := make(chan struct{})
		c.turned.Store(&turned)
		if c.closed.Load() || c.reading.Load() > 0 {
			continue // it turned before it could know of us
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return 0, false
		}
	}
}

// heard reports whether anything has come since count bytes were received: more
// of them, or the end.
func (c *Conn) heard(count int64) bool {
	for {
		// What is not in the kernel any more is taken or counted.
		if !c.socket.silent() {
			return true
		}
		if !c.taking.Load() {
			return c.received.Load() != count
		}
		runtime.Gosched() // that is a system call which does not wait
	}
}

// unwrap returns the watched connection below TLS; nil when there is none.
func unwrap(conn net.Conn) *Conn {
	for range 4 {
		switch c := conn.(type) {
		case *Conn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
	return nil
}

// What is spoken on a connection, which is asked once: the answer of TLS is made
// anew each time.
const (
	unasked uint32 = iota
	http1
	http2
)

// speaksHTTP2 reports whether a connection carries HTTP/2. watched is the one
// below it, or nil.
func speaksHTTP2(conn net.Conn, watched *Conn) bool {
	if watched != nil {
		if known := watched.protocol.Load(); known != unasked {
			return known == http2
		}
	}
	secure, ok := conn.(interface{ ConnectionState() tls.ConnectionState })
	answer := http1
	if ok && secure.ConnectionState().NegotiatedProtocol == "h2" {
		answer = http2
	}
	if watched != nil {
		watched.protocol.Store(answer)
	}
	return answer == http2
}
