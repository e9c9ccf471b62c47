package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// right is a right to send, and counts who asked for it.
type right struct {
	lost  bool
	asked int
}

func (r *right) Held() bool {
	r.asked++
	return !r.lost
}

// pair is a connection of a set and its other end.
func pair(t *testing.T) (set *Set, c *Conn, peer *net.TCPConn) {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	set = NewSet()
	dialed, err := set.Dialer(new(net.Dialer).DialContext)(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err = listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		set.Close()
		_ = peer.Close() // a test may have closed it
	})
	return set, unwrap(dialed), peer
}

// until waits for what happens on another goroutine or in the kernel.
func until(so func() bool) {
	for !so() {
		runtime.Gosched()
	}
}

// arrived is all that came to the other end of a connection, which is ended for it.
func arrived(t *testing.T, c *Conn, peer net.Conn) string {
	t.Helper()
	_ = c.Close() // the gate may have closed it
	text, err := io.ReadAll(peer)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// reader is what net/http keeps on a connection: somebody who reads until its end.
func reader(t *testing.T, c *Conn) {
	t.Helper()
	done := make(chan struct{})
	go func() { // ends with the connection
		defer close(done)
		_, _ = io.Copy(io.Discard, c)
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
}

// takes has a trip get a connection, as net/http tells it.
func (t *Trip) takes(ctx context.Context, c net.Conn, kept bool) {
	t.Watch(ctx)
	t.trace.GotConn(httptrace.GotConnInfo{Conn: c, Reused: kept})
}

// TestTheGate: the right to send is asked once, by the first byte and not by the
// connection, and without it no byte passes.
func TestTheGate(t *testing.T) {
	for name, kept := range map[string]bool{"a new connection": false, "a kept one": true} {
		for _, lost := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				_, c, peer := pair(t)
				if kept {
					reader(t, c)
				}
				r := &right{}
				trip := Trip{Right: r}
				trip.takes(t.Context(), c, kept)
				if r.asked != 0 {
					t.Errorf("asked %d times before anything was to leave", r.asked)
				}
				r.lost = lost // while the request was written, or a handshake went on
				_, err := c.Write([]byte("first"))
				if (err == nil) == lost || r.asked != 1 {
					t.Errorf("lost %v: %v, asked %d times", lost, err, r.asked)
				}
				want, fate := "firstsecond", Underway
				if lost {
					want, fate = "", Withheld
				}
				if _, err := c.Write([]byte("second")); (err == nil) == lost || r.asked != 1 {
					t.Errorf("lost %v: then %v, asked %d times", lost, err, r.asked)
				}
				if got := trip.Fate(io.ErrUnexpectedEOF); got != fate {
					t.Errorf("its fate is %d, want %d", got, fate)
				}
				if got := arrived(t, c, peer); got != want {
					t.Errorf("%q left, want %q", got, want)
				}
			})
		}
	}
}

// TestTheGateWhereNoWriteIsSeen is the connection itself: without the right it is
// closed, and the round trip ended, before net/http writes.
func TestTheGateWhereNoWriteIsSeen(t *testing.T) {
	for _, lost := range []bool{false, true} {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = errors.Join(ours.Close(), theirs.Close()) })
		r, stopped := &right{lost: lost}, false
		trip := Trip{Right: r, Stop: func() { stopped = true }}
		trip.takes(t.Context(), ours, false)
		want := Underway
		if lost {
			want = Withheld
		}
		if fate := trip.Fate(io.ErrUnexpectedEOF); fate != want || stopped != lost || r.asked != 1 {
			t.Errorf("lost %v: its fate is %d, stopped %v, asked %d times", lost, fate, stopped, r.asked)
		}
		if lost {
			if _, err := ours.Write([]byte("request")); err == nil {
				t.Error("the connection is open")
			}
		}
	}
}

// comings are the ways in which something comes on a kept connection before the
// next request leaves.
var comings = map[string]func(t *testing.T, trip *Trip, c *Conn, peer *net.TCPConn){
	"it waits in the kernel, and the reader was not told yet": func(t *testing.T, trip *Trip, c *Conn, peer *net.TCPConn) {
		c.reading.Store(1)
		trip.takes(t.Context(), c, true)
		says(t, peer)
		until(func() bool { return !c.socket.silent() })
	},
	"the reader has taken it since the request got the connection": func(t *testing.T, trip *Trip, c *Conn, peer *net.TCPConn) {
		reader(t, c)
		trip.takes(t.Context(), c, true)
		says(t, peer)
		until(func() bool { return c.received.Load() > 0 })
	},
	"the reader has taken it, and waits again as if nothing had been": func(t *testing.T, trip *Trip, c *Conn, peer *net.TCPConn) {
		// What it had received when it began to wait is what counts, and not what
		// it has by the time that somebody looks.
		c.reading.Store(1)
		c.received.Store(7)
		trip.takes(t.Context(), c, true)
	},
	"the other end has closed": func(t *testing.T, trip *Trip, c *Conn, peer *net.TCPConn) {
		c.reading.Store(1)
		trip.takes(t.Context(), c, true)
		if err := peer.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		until(func() bool { return !c.socket.silent() })
	},
	"net/http has closed it for that": func(t *testing.T, trip *Trip, c *Conn, _ *net.TCPConn) {
		_ = c.Close()
		trip.takes(t.Context(), c, true)
	},
}

func says(t *testing.T, peer net.Conn) {
	t.Helper()
	if _, err := io.WriteString(peer, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nunasked"); err != nil {
		t.Fatal(err)
	}
}

// TestAConnectionOnWhichSomethingCameUnasked carries nothing any more: the request
// does not leave, the connection is closed and belongs to nobody.
func TestAConnectionOnWhichSomethingCameUnasked(t *testing.T) {
	for name, comes := range comings {
		t.Run(name, func(t *testing.T) {
			set, c, peer := pair(t)
			r := &right{}
			trip := Trip{Right: r}
			comes(t, &trip, c, peer)
			if _, err := c.Write([]byte("request")); err == nil {
				t.Error("the request has left")
			}
			// As with an answer at hand, so without.
			for _, err := range []error{nil, io.ErrUnexpectedEOF} {
				if fate := trip.Fate(err); fate != Unfit {
					t.Errorf("its fate with %v is %d", err, fate)
				}
			}
			if !c.closed.Load() || set.Len() != 0 {
				t.Errorf("closed %v, %d connections are open", c.closed.Load(), set.Len())
			}
			if _, err := c.Conn.Write([]byte("x")); err == nil {
				t.Error("the connection below it is open")
			}
			if r.asked != 0 {
				t.Errorf("the right to send was asked for %d times", r.asked)
			}
		})
	}
}

// TestWhoIsAnsweredBeforeItSpoke has another's answer, on a new connection too.
func TestWhoIsAnsweredBeforeItSpoke(t *testing.T) {
	set, c, _ := pair(t)
	trip := Trip{}
	trip.takes(t.Context(), c, false)
	if fate := trip.Fate(nil); fate != Unfit || !c.closed.Load() || set.Len() != 0 {
		t.Errorf("its fate is %d, closed %v, %d connections are open", fate, c.closed.Load(), set.Len())
	}
	// net/http may write only now: nothing passes.
	if _, err := c.Write([]byte("request")); err == nil {
		t.Error("the request has left after it was given up")
	}
}

// TestARequestWaitsForTheReader of its kept connection, no longer than its call.
func TestARequestWaitsForTheReader(t *testing.T) {
	t.Run("who begins to listen", func(t *testing.T) {
		_, c, peer := pair(t)
		trip, took := Trip{}, make(chan struct{})
		go func() {
			defer close(took)
			trip.takes(t.Context(), c, true)
		}()
		until(func() bool { return c.turned.Load() != nil })
		reader(t, c)
		<-took
		if _, err := c.Write([]byte("request")); err != nil {
			t.Error(err)
		}
		if got := arrived(t, c, peer); got != "request" {
			t.Errorf("%q left", got)
		}
	})
	for name, end := range map[string]func(c *Conn, cancel func()){
		"whose connection is closed": func(c *Conn, _ func()) { _ = c.Close() },
		"whose call ends":            func(_ *Conn, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			_, c, peer := pair(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			trip, took := Trip{}, make(chan struct{})
			go func() {
				defer close(took)
				trip.takes(ctx, c, true)
			}()
			until(func() bool { return c.turned.Load() != nil })
			end(c, cancel)
			<-took
			if fate := trip.Fate(io.ErrUnexpectedEOF); fate != Unfit || !c.closed.Load() {
				t.Errorf("its fate is %d, closed %v", fate, c.closed.Load())
			}
			if got := arrived(t, c, peer); got != "" {
				t.Errorf("%q left", got)
			}
		})
	}
}

// TestASetThatIsClosed ends its connections and makes no others.
func TestASetThatIsClosed(t *testing.T) {
	set, c, peer := pair(t)
	if set.Len() != 1 {
		t.Errorf("%d connections", set.Len())
	}
	set.Close()
	if got := arrived(t, c, peer); got != "" || set.Len() != 0 || !c.closed.Load() {
		t.Errorf("%q, %d connections, closed %v", got, set.Len(), c.closed.Load())
	}
	made := 0
	_, err := set.Dialer(func(context.Context, string, string) (net.Conn, error) {
		made++
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = theirs.Close() })
		return ours, nil
	})(t.Context(), "tcp", "x")
	if err == nil || made != 1 || set.Len() != 0 {
		t.Errorf("after that: %v, %d dials, %d connections", err, made, set.Len())
	}
}
