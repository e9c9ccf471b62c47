// Package conn makes the connections of backends that speak HTTP, and watches
// over what is written to them.
//
// # When a request may leave
//
// A request waits on the way to its first byte: for a name, a connection, a TLS
// handshake. Meanwhile its claim may run out, and the call be decided by
// somebody else. So the right to send is asked where the bytes pass (Conn.Write),
// and nothing of a request that may not leave does.
//
// # Whose answer it is
//
// HTTP/1.1 has no ids: what arrives on a connection is the answer to the request
// that is under way on it. A server that answers once more than it was asked
// would so answer the next call. net/http closes a connection on which something
// comes unasked, but only when it notices before the next request begins. Here a
// request waits until the reader of its kept connection listens again, and does
// not leave when anything has come by then. One whose answer comes before it has
// left at all has not been answered.
//
// What comes in the moment between that and the arrival of the request at the
// server cannot be told from its answer.
//
// HTTP/2 numbers its streams, so none of this can happen there. All requests of
// a backend share a connection, so the right to send is asked when a request
// gets it, and withheld by ending its context, which net/http looks at last
// before it writes.
package conn

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Set is the open connections of a backend, so that it can end them.
type Set struct {
	mu     sync.Mutex
	open   map[*Conn]struct{}
	closed bool
	// done ends dials that are under way when the backend closes.
	done context.Context
	end  context.CancelFunc
}

// NewSet returns a set without connections.
func NewSet() *Set {
	done, end := context.WithCancel(context.Background())
	return &Set{open: make(map[*Conn]struct{}), done: done, end: end}
}

// Dial is the DialContext of a net.Dialer.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

var errClosed = errors.New("the backend is closed")

// Dialer wraps dial so that every connection is watched and can be closed.
func (s *Set) Dialer(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if t, ok := ctx.Value(tripKey{}).(*Trip); ok {
			t.dialled.Store(true)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.done, cancel)()
		raw, err := dial(ctx, network, address)
		switch {
		case err != nil && s.done.Err() != nil:
			return nil, &net.OpError{Op: "dial", Net: network, Err: errClosed}
		case err != nil:
			return nil, err
		}
		c := newConn(raw, s)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			return nil, errors.Join(&net.OpError{Op: "dial", Net: network, Err: errClosed}, raw.Close())
		}
		s.open[c] = struct{}{}
		return c, nil
	}
}

// Close closes what is open and refuses what would be opened.
func (s *Set) Close() {
	s.end()
	s.mu.Lock()
	s.closed = true
	open := make([]*Conn, 0, len(s.open))
	for c := range s.open {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // its reader and writer see the error
	}
}

// Len is how many connections are open.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Serving is how many connections are open that requests have got.
func (s *Set) Serving() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.serves.Load() {
			n++
		}
	}
	return n
}

func (s *Set) forget(c *Conn) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
}
