package httptool

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// brittleConn is a connection whose writes fail once it is broken, after having
// taken partial bytes.
type brittleConn struct {
	net.Conn
	broken  *atomic.Bool
	partial int
}

func (c brittleConn) Write(b []byte) (int, error) {
	if !c.broken.Load() {
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b[:min(c.partial, len(b))])
	return n, errors.Join(err, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE})
}

func TestARequestOfWhichNothingWasWrittenDidNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		partial  int
		evidence tool.Evidence
	}{
		"no byte":  {0, tool.NotExecuted},
		"one byte": {1, tool.Ambiguous},
	} {
		for _, method := range []string{"POST", "DELETE", "GET"} {
			t.Run(name+" of a "+method, func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				defer server.Close()
				b, err := New(Config{Name: "shop", BaseURL: server.URL, AllowPrivate: true})
				if err != nil {
					t.Fatal(err)
				}
				var broken atomic.Bool
				dials := 0
				b.transport.DialContext = b.conns.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
					dials++
					conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
					return brittleConn{conn, &broken, c.partial}, err
				})
				if err := b.Register("it", Spec{Method: method, Path: "/x", IdempotencyHeader: "Idempotency-Key"}); err != nil {
					t.Fatal(err)
				}
				in := backend.Invocation{Tool: "it", Args: []byte(`{}`), IdempotencyKey: "k"}
				if _, failure := b.Invoke(t.Context(), in); failure != nil {
					t.Fatal(failure)
				}
				broken.Store(true)
				_, failure := b.Invoke(t.Context(), in)
				if failure == nil || failure.Evidence != c.evidence || failure.Code != tool.CodeDependencyUnavailable {
					t.Errorf("failure = %+v, want %s", failure, c.evidence)
				}
				if dials != 1 {
					t.Errorf("%d connections: the request was sent again", dials)
				}
				if err := b.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestConnectionsAreForgottenWhenTheyClose(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	b, err := New(Config{Name: "shop", BaseURL: server.URL, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Register("it", Spec{Method: "GET", Path: "/x"}); err != nil {
		t.Fatal(err)
	}
	if _, failure := b.Invoke(t.Context(), backend.Invocation{Tool: "it"}); failure != nil {
		t.Fatal(failure)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := b.conns.Len(); n != 0 {
		t.Errorf("%d connections are still known", n)
	}
}

func TestSlowTextIsJudgedByItsWholeCharacters(t *testing.T) {
	long := make([]byte, 0, 2048)
	for len(long) < 1100 {
		long = append(long, "\u65e5"...)
	}
	for n := 1020; n < 1030; n++ {
		if looksBinary(long[:n]) && n%3 == 0 {
			t.Errorf("text of %d bytes looks binary", n)
		}
	}
	if !looksBinary([]byte("\x01\x02\xff\x03\x04")) {
		t.Error("control characters look like text")
	}
	if looksBinary([]byte("caf\xe9 au lait")) {
		t.Error("Latin-1 looks binary")
	}
}
