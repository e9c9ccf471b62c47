package httptool_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/deadline"
	"github.com/sidecall/sidecall/test/testkit/wire"
)

// executeThenBreak is a server that answers the first request of a connection
// and breaks the connection at the second, after it has carried it out. That is
// what makes net/http send a request again.
type executeThenBreak struct {
	url        string
	executions atomic.Int64
}

func startExecuteThenBreak(t *testing.T, reset bool) *executeThenBreak {
	t.Helper()
	s := new(executeThenBreak)
	s.url = wire.HTTP1(t, func(x *wire.Exchange) bool {
		switch {
		case !x.ReadBody():
			return false
		case x.URL.Path == "/warm":
			return x.OK("ok")
		}
		s.executions.Add(1)
		return reset && x.Reset()
	})
	return s
}

// warm leaves one connection idle, so that the next call reuses it.
func (s *executeThenBreak) warm(t *testing.T, b *httptool.Backend) {
	t.Helper()
	_, failure := call{spec: httptool.Spec{Method: "GET", Path: "/warm"}, effect: tool.ReadOnly}.on(t, b)
	noFailure(t, failure)
}

// requests are all the ways in which a request may look harmless to net/http.
var requests = map[string]call{
	"POST with a body":                 {spec: httptool.Spec{Method: "POST", Path: "/do"}, args: `{"a":1}`},
	"POST with a key":                  {spec: httptool.Spec{Method: "POST", Path: "/do", IdempotencyHeader: "Idempotency-Key"}, args: `{"a":1}`, key: "k", effect: tool.Keyed},
	"POST with another key":            {spec: httptool.Spec{Method: "POST", Path: "/do", IdempotencyHeader: "X-Idempotency-Key"}, args: `{"a":1}`, key: "k"},
	"POST without a body":              {spec: httptool.Spec{Method: "POST", Path: "/do", Body: &httptool.Body{}}},
	"POST without a body, with a key":  {spec: httptool.Spec{Method: "POST", Path: "/do", Body: &httptool.Body{}, IdempotencyHeader: "Idempotency-Key"}, key: "k"},
	"PATCH with a key":                 {spec: httptool.Spec{Method: "PATCH", Path: "/do", IdempotencyHeader: "Idempotency-Key"}, key: "k"},
	"PUT":                              {spec: httptool.Spec{Method: "PUT", Path: "/do"}, args: `{"a":1}`, effect: tool.Idempotent},
	"DELETE":                           {spec: httptool.Spec{Method: "DELETE", Path: "/do"}, effect: tool.Idempotent},
	"DELETE with a key":                {spec: httptool.Spec{Method: "DELETE", Path: "/do", IdempotencyHeader: "Idempotency-Key"}, key: "k"},
	"GET that has an effect":           {spec: httptool.Spec{Method: "GET", Path: "/do"}},
	"GET that has an effect and a key": {spec: httptool.Spec{Method: "GET", Path: "/do", IdempotencyHeader: "Idempotency-Key"}, key: "k"},
	"GET that reads":                   {spec: httptool.Spec{Method: "GET", Path: "/do"}, effect: tool.ReadOnly},
	"HEAD":                             {spec: httptool.Spec{Method: "HEAD", Path: "/do"}, effect: tool.ReadOnly},
}

func TestExecuteThenCloseOnAReusedConnectionExecutesOnce(t *testing.T) {
	for name, c := range requests {
		for _, reset := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", closed", true: ", reset"}[reset], func(t *testing.T) {
				s := startExecuteThenBreak(t, reset)
				b := at(t, s.url)
				s.warm(t, b)
				_, failure := c.on(t, b)
				proves(t, failure, tool.CodeDependencyUnavailable, tool.Ambiguous)
				if n := s.executions.Load(); n != 1 {
					t.Errorf("%d executions, want 1", n)
				}
			})
		}
	}
}

// Without this the test above would prove nothing.
func TestNetHTTPByItselfExecutesTwice(t *testing.T) {
	s := startExecuteThenBreak(t, false)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	send := func(path, key string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", key)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.Body.Close()
	}
	if err := send("/warm", ""); err != nil {
		t.Fatal(err)
	}
	if err := send("/do", "k"); err == nil {
		t.Fatal("no error")
	}
	if n := s.executions.Load(); n != 2 {
		t.Errorf("%d executions: net/http no longer sends again, and the server here must change", n)
	}
}

func TestRedirectsOfEffectfulRequestsAreNotFollowed(t *testing.T) {
	for name, c := range requests {
		for _, status := range []int{301, 302, 303, 307, 308} {
			t.Run(name+" "+http.StatusText(status), func(t *testing.T) {
				var asked, moved atomic.Int64
				url := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/moved" {
						moved.Add(1)
						return
					}
					asked.Add(1)
					http.Redirect(w, r, "/moved?token=secret", status)
				})
				_, failure := c.on(t, at(t, url))
				if asked.Load() != 1 {
					t.Errorf("%d requests, want 1", asked.Load())
				}
				if c.effect == tool.ReadOnly {
					noFailure(t, failure)
					return
				}
				evidence := tool.Definite
				if status <= 303 {
					evidence = tool.Ambiguous
				}
				proves(t, failure, tool.CodeUnrecoverable, evidence)
				if moved.Load() != 0 {
					t.Error("the redirect was followed")
				}
				if !strings.Contains(failure.Message, "/moved") || strings.Contains(failure.Message, "secret") {
					t.Errorf("message = %q, want the path without the query", failure.Message)
				}
			})
		}
	}
}

func TestRedirectsOfReadsStayWithinTheOriginAndEnd(t *testing.T) {
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) { t.Error("another host was asked") })
	var hops atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/elsewhere":
			http.Redirect(w, r, other+"/x", http.StatusFound)
		case "/up":
			http.Redirect(w, r, "https://"+r.Host+"/x", http.StatusFound)
		case "/user":
			http.Redirect(w, r, "http://u:p@"+r.Host+"/x", http.StatusFound)
		case "/slashes":
			w.Header().Set("Location", "http://"+r.Host+"//"+strings.TrimPrefix(other, "http://")+"/x")
			w.WriteHeader(http.StatusFound)
		case "/loop":
			hops.Add(1)
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/nowhere":
			w.WriteHeader(http.StatusFound)
		case "/relative/a":
			http.Redirect(w, r, "b?x=1", http.StatusSeeOther)
		case "/relative/b":
			if r.Header.Get("Authorization") != "Bearer t" {
				t.Error("the header got lost")
			}
			_, _ = io.WriteString(w, r.URL.String())
		}
	})
	b := open(t, httptool.Config{BaseURL: url, AllowPrivate: true, Headers: map[string]string{"Authorization": "Bearer t"}})
	read := func(path string) (string, *tool.Failure) {
		reply, failure := call{spec: httptool.Spec{Path: path}, effect: tool.ReadOnly}.on(t, b)
		return string(reply.Text), failure
	}
	for _, path := range []string{"/elsewhere", "/up", "/user", "/slashes", "/loop", "/nowhere"} {
		_, failure := read(path)
		proves(t, failure, tool.CodeUnrecoverable, tool.Definite)
	}
	if n := hops.Load(); n != 6 {
		t.Errorf("%d requests in a loop, want 6", n)
	}
	text, failure := read("/relative/a")
	noFailure(t, failure)
	if text != "/relative/b?x=1" {
		t.Errorf("ended at %q, want /relative/b?x=1", text)
	}
}

func TestATimeoutAfterSendingIsAmbiguous(t *testing.T) {
	released := make(chan struct{})
	arrived := make(chan struct{}, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		select {
		case <-released:
		case <-r.Context().Done():
		}
	})
	defer close(released)
	b := at(t, url)
	post := call{spec: httptool.Spec{Method: "POST", Path: "/do"}}

	ctx, pass := deadline.On()
	go func() {
		<-arrived
		pass()
	}()
	_, failure := post.under(ctx, t, b)
	proves(t, failure, tool.CodeTimeout, tool.Ambiguous)

	// The pipeline gives its contexts causes of their own. A machine that stands
	// still may end this one before anything is sent.
	for range 3 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, io.ErrNoProgress)
		_, failure = post.under(ctx, t, b)
		cancel()
		if failure != nil && failure.Evidence != tool.NotExecuted {
			break
		}
	}
	proves(t, failure, tool.CodeTimeout, tool.Ambiguous)
	<-arrived

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, failure = post.under(ctx, t, b)
	proves(t, failure, tool.CodeCancelled, tool.Ambiguous)
	if !failure.CallerFault {
		t.Error("a cancelled call counts against the backend")
	}
}

func TestNothingIsSentUnderAContextThatHasEnded(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	b := at(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, failure := call{spec: httptool.Spec{Method: "POST", Path: "/do"}}.under(ctx, t, b)
	proves(t, failure, tool.CodeCancelled, tool.NotExecuted)
	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, failure = call{spec: httptool.Spec{Method: "POST", Path: "/do"}}.under(ctx, t, b)
	proves(t, failure, tool.CodeDependencyUnavailable, tool.NotExecuted)
}

func TestNoConnectionMeansNotExecuted(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	plain := strings.TrimPrefix(serve(t, func(http.ResponseWriter, *http.Request) {}), "http://")
	for name, c := range map[string]struct{ url, errorType string }{
		"refused":                        {"http://" + dead, "connection_refused"},
		"refused under TLS":              {"https://" + dead, "connection_refused"},
		"not a TLS server":               {"https://" + plain, "tls"},
		"a name that cannot be resolved": {"http://no-such-host.invalid", "dns"},
	} {
		t.Run(name, func(t *testing.T) {
			_, failure := call{spec: httptool.Spec{Method: "POST", Path: "/do"}}.on(t, at(t, c.url))
			proves(t, failure, tool.CodeDependencyUnavailable, tool.NotExecuted)
			if failure.ErrorType != c.errorType {
				t.Errorf("error type = %s, want %s: %v", failure.ErrorType, c.errorType, failure.Err)
			}
		})
	}
}

func TestWaitingForAConnectionIsNotSending(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 2)
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})
	b := open(t, httptool.Config{BaseURL: url, AllowPrivate: true, MaxConns: 1})
	c := call{spec: httptool.Spec{Method: "POST", Path: "/do"}}
	first := make(chan *tool.Failure, 1)
	go func() {
		_, failure := c.on(t, b)
		first <- failure
	}()
	<-entered
	var failure *tool.Failure
	for range 3 { // in one of which the machine may stand still before there is anything to wait for
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, failure = c.under(ctx, t, b)
		cancel()
		if failure != nil && failure.Code == tool.CodeOverloaded {
			break
		}
	}
	proves(t, failure, tool.CodeOverloaded, tool.NotExecuted)
	if failure.Unreached || !failure.KnownDown { // the connection is well
		t.Errorf("it counts against the connection: %+v", failure)
	}
	close(release)
	noFailure(t, <-first)
}

// Whoever waits behind connections that do not come about, waits for the connection.
func TestWaitingBehindADialIsWaitingForTheConnection(t *testing.T) {
	b := open(t, httptool.Config{BaseURL: silent(t), AllowPrivate: true, MaxConns: 1})
	c := call{spec: httptool.Spec{Method: "POST", Path: "/do"}}
	for range 3 { // the first of them dials
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, failure := c.under(ctx, t, b)
		cancel()
		proves(t, failure, tool.CodeDependencyUnavailable, tool.NotExecuted)
		if !failure.Unreached {
			t.Errorf("it says nothing of the connection: %+v", failure)
		}
	}
}

// silent is the address of a server that takes connections and never shakes hands.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return "https://" + listener.Addr().String()
}
