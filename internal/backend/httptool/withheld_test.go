package httptool_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/tool"
)

// right is a right to send that is lost at some time.
type right struct {
	lost atomic.Bool
	// asked is called when somebody asks.
	asked func()
}

func (r *right) Held() bool {
	if r.asked != nil {
		r.asked()
	}
	return !r.lost.Load()
}

// slow is a listener whose connections answer nothing, not even a handshake,
// until they may.
type slow struct {
	net.Listener
	accepted chan struct{}
	may      chan struct{}
}

func (s slow) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s.accepted <- struct{}{}
	return slowConn{conn, s.may}, nil
}

type slowConn struct {
	net.Conn
	may chan struct{}
}

func (c slowConn) Read(b []byte) (int, error) {
	<-c.may
	return c.Conn.Read(b)
}

// guarded is an upstream that tells whether any byte of a request came.
type guarded struct {
	slow
	server   *httptest.Server
	requests atomic.Int64
	// began counts connections on which a byte of a request came, over
	// HTTP/1.1.
	began atomic.Int64
	// over gets the connections that ended.
	over chan struct{}
}

func startGuarded(t *testing.T, secure, http2 bool) *guarded {
	t.Helper()
	g := &guarded{over: make(chan struct{}, 1000)}
	g.server = httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { g.requests.Add(1) }))
	g.slow = slow{g.server.Listener, make(chan struct{}, 1000), make(chan struct{})}
	g.server.Listener = g.slow
	g.server.EnableHTTP2 = http2
	g.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateActive {
			g.began.Add(1)
		}
		if state == http.StateClosed {
			g.over <- struct{}{}
		}
	}
	if secure {
		g.server.StartTLS()
	} else {
		g.server.Start()
	}
	t.Cleanup(g.server.Close)
	return g
}

func (g *guarded) backend(t *testing.T) *httptool.Backend {
	t.Helper()
	cfg := httptool.Config{BaseURL: g.server.URL, AllowPrivate: true}
	if cert := g.server.Certificate(); cert != nil {
		roots := x509.NewCertPool()
		roots.AddCert(cert)
		cfg.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	b := open(t, cfg)
	if err := b.Register("it", httptool.Spec{Method: "POST", Path: "/do"}); err != nil {
		t.Fatal(err)
	}
	return b
}

func pay(t *testing.T, r backend.Right) backend.Invocation {
	t.Helper()
	in := call{args: `{"cents":1}`}.invocation(t)
	in.Right = r
	return in
}

// TestTheRightToSendIsAskedWhenTheConnectionIsThere: a handshake may take longer
// than the claim on the call lasts, and somebody else may have decided it then.
func TestTheRightToSendIsAskedWhenTheConnectionIsThere(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			g := startGuarded(t, true, http2)
			b := g.backend(t)
			r := new(right)
			failed := make(chan *tool.Failure, 1)
			var asking sync.WaitGroup
			asking.Go(func() {
				_, failure := b.Invoke(t.Context(), pay(t, r))
				failed <- failure
			})
			<-g.accepted // the handshake has begun, and stands still
			r.lost.Store(true)
			close(g.may)
			failure := <-failed
			asking.Wait()
			proves(t, failure, tool.CodeStoreUnavailable, tool.NotExecuted)
			if !backend.WasWithheld(failure) {
				t.Errorf("failure = %+v", failure)
			}
			if !http2 {
				<-g.over // then all that came has been seen
				if n := g.began.Load(); n > 0 {
					t.Error("bytes of the request arrived")
				}
			}
			if n := g.requests.Load(); n > 0 {
				t.Errorf("%d requests arrived", n)
			}
			// Whoever has the right goes on, with HTTP/2 over the same connection.
			_, failure = b.Invoke(t.Context(), pay(t, new(right)))
			noFailure(t, failure)
			if conns := len(g.accepted); http2 && conns > 0 {
				t.Errorf("%d connections were opened anew", conns)
			}
			if n := g.requests.Load(); n != 1 {
				t.Errorf("%d requests arrived, want 1", n)
			}
		})
	}
}

// TestTheRightToSendIsAskedOfEveryRequest: kept connections, several requests, a
// right that is lost in between.
func TestTheRightToSendIsAskedOfEveryRequest(t *testing.T) {
	for name, kind := range map[string]struct{ secure, http2 bool }{
		"HTTP/1.1": {}, "HTTP/1.1 over TLS": {secure: true}, "HTTP/2": {secure: true, http2: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGuarded(t, kind.secure, kind.http2)
			close(g.may)
			b := g.backend(t)
			var asked atomic.Int64
			for i := range 20 {
				r := &right{asked: func() { asked.Add(1) }}
				r.lost.Store(i%4 == 3)
				_, failure := b.Invoke(t.Context(), pay(t, r))
				if r.lost.Load() {
					proves(t, failure, tool.CodeStoreUnavailable, tool.NotExecuted)
				} else {
					noFailure(t, failure)
				}
			}
			if n := g.requests.Load(); n != 15 || asked.Load() != 20 {
				t.Errorf("%d requests arrived, want 15; asked %d times, want 20", n, asked.Load())
			}
		})
	}
}

// TestAWithheldRequestHarmsNobodyElse: with HTTP/2 others use the connection.
func TestAWithheldRequestHarmsNobodyElse(t *testing.T) {
	g := startGuarded(t, true, true)
	close(g.may)
	b := g.backend(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			r := new(right)
			r.lost.Store(i%2 == 1)
			_, failure := b.Invoke(t.Context(), pay(t, r))
			if withheld := backend.WasWithheld(failure); withheld != r.lost.Load() || !withheld && failure != nil {
				t.Errorf("call %d: %+v", i, failure)
			}
		})
	}
	all.Wait()
	if n := g.requests.Load(); n != 25 {
		t.Errorf("%d requests arrived, want 25", n)
	}
}
