package mcptool

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/deadline"
)

// site is a streamable HTTP server with something in front of it.
type site struct {
	*httptest.Server
	ledger ledger
	mu     sync.Mutex
	front  func(w http.ResponseWriter, r *http.Request, body string) (handled bool)
	inner  http.Handler
	opts   *mcp.StreamableHTTPOptions
	posts  atomic.Int64 // of tools/call
}

func newSite(t *testing.T, opts mcp.StreamableHTTPOptions) *site {
	t.Helper()
	s := &site{ledger: newLedger(t), opts: &opts}
	s.forget()
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	// Registered later, so that it runs first.
	t.Cleanup(func() {
		close(s.ledger.stop)
		s.CloseClientConnections()
	})
	return s
}

// forget makes the server forget its sessions, as a restart does.
func (s *site) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := newServer(s.ledger)
	s.inner = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, s.opts)
}

// before has f look at every request first.
func (s *site) before(f func(w http.ResponseWriter, r *http.Request, body string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.front = f
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if strings.Contains(string(body), `"method":"tools/call"`) {
		s.posts.Add(1)
	}
	s.mu.Lock()
	front, inner := s.front, s.inner
	s.mu.Unlock()
	if front != nil && front(w, r, string(body)) {
		return
	}
	inner.ServeHTTP(w, r)
}

func (s *site) config(t *testing.T) Config {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return Config{URL: s.URL, HTTPClient: &http.Client{Transport: transport}, Timing: quick}
}

func isCall(body string) bool { return strings.Contains(body, `"method":"tools/call"`) }

func hijack(t *testing.T, w http.ResponseWriter) (net.Conn, *bufio.ReadWriter) {
	t.Helper()
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
	}
	return conn, rw
}

// kinds are the ways in which servers answer.
var kinds = map[string]mcp.StreamableHTTPOptions{
	"events":    {},
	"JSON":      {JSONResponse: true},
	"stateless": {Stateless: true},
	"resumable": {EventStore: mcp.NewMemoryEventStore(nil)},
}

func TestHTTPCallsAndDiscovers(t *testing.T) {
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, opts)
			cfg := s.config(t)
			cfg.Headers = map[string]string{"Authorization": "Bearer x"}
			s.before(func(w http.ResponseWriter, r *http.Request, _ string) bool {
				if r.Header.Get("Authorization") != "Bearer x" {
					http.Error(w, "who are you?", http.StatusUnauthorized)
					return true
				}
				return false
			})
			r := run(t, cfg)
			if tools := r.up(); len(tools) < 14 {
				t.Errorf("only %d tools", len(tools))
			}
			args := `{"n":9007199254740993}`
			if got := r.want("echo", args); got != args {
				t.Errorf("echo says %q", got)
			}
			reply, f := r.call("structured", `{}`)
			if want := `{"z":9007199254740993,"a":1.50}`; f != nil || string(reply.Structured) != want || string(reply.Text) != want || !reply.JSON {
				t.Errorf("structured: %s, %s, %v", reply.Structured, reply.Text, f)
			}
			if got := len(r.want("big", `{"bytes":300000}`)); got != 300_000 {
				t.Errorf("a long result has %d bytes", got)
			}
		})
	}
}

func TestHTTPNotifications(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	r := run(t, s.config(t))
	before := len(r.up())
	var notes []string // all come before the answer
	call := backend.Invocation{Target: "progress", Args: []byte(`{}`), Progress: func(s backend.Sign) { notes = append(notes, s.Note) }}
	if _, f := r.Invoke(context.Background(), call); f != nil {
		t.Fatal(f)
	}
	if got := fmt.Sprint(notes); got != "[1/2 half way]" {
		t.Errorf("notes are %s", got)
	}
	r.want("grow", `{}`)
	if after := len(r.up()); after != before+10 {
		t.Errorf("%d tools became %d", before, after)
	}
}

func TestHTTPCancellationReachesTheServer(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	r := run(t, s.config(t))
	r.up()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan *tool.Failure, 1)
	go func() {
		_, f := r.Invoke(ctx, backend.Invocation{Target: "wait", Args: []byte(`{}`)})
		done <- f
	}()
	waitFor(t, "the tool runs", func() bool { return s.ledger.count("waiting") == 1 })
	cancel()
	wantFailure(t, <-done, tool.CodeCancelled, tool.Ambiguous, "cancelled")
	waitFor(t, "the server hears of it", func() bool { return s.ledger.count("cancelled") == 1 })
	if got := r.want("echo", `{}`); got != "{}" {
		t.Errorf("the session does not go on: %q", got)
	}
}

// The session that the server forgot is found out by a call, which provably did
// not run; the next one has a new session.
func TestAForgottenSessionIsReplaced(t *testing.T) {
	l := func(s *site) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, r *http.Request, body string) bool {
			if r.Header.Get(sessionHeader) == "old" && isCall(body) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`)
				return true
			}
			return false
		}
	}
	for name, old := range map[string]bool{"404": false, "400, as the official examples answer": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, mcp.StreamableHTTPOptions{})
			r := run(t, s.config(t))
			r.up()
			if old {
				session := r.current().client.ID()
				s.before(func(w http.ResponseWriter, req *http.Request, body string) bool {
					if req.Header.Get(sessionHeader) == session {
						req.Header.Set(sessionHeader, "old")
					}
					return l(s)(w, req, body)
				})
			}
			waitFor(t, "the session has worked for a while", func() bool {
				return time.Since(r.current().since) > 2*quick.RestartBase
			})
			s.forget()
			_, f := r.call("pay", `{}`)
			wantFailure(t, f, tool.CodeDependencyUnavailable, tool.NotExecuted, "session_expired")
			if n := s.ledger.count("paid"); n != 0 {
				t.Errorf("it ran %d times", n)
			}
			waitFor(t, "a next call finds the new session", func() bool {
				_, f := r.call("echo", `{}`)
				return f == nil
			})
			r.want("pay", `{}`)
			if n := s.ledger.count("paid"); n != 1 {
				t.Errorf("it ran %d times", n)
			}
		})
	}
}

func TestASessionThatIsAlwaysForgottenIsNoBusyLoop(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	var opened atomic.Int64
	s.before(func(w http.ResponseWriter, r *http.Request, body string) bool {
		if strings.Contains(body, `"method":"initialize"`) {
			opened.Add(1)
		}
		if strings.Contains(body, `"method":"notifications/initialized"`) {
			http.NotFound(w, r)
			return true
		}
		return false
	})
	cfg := s.config(t)
	cfg.Timing.RestartBase, cfg.Timing.RestartMax = time.Hour, time.Hour
	r := run(t, cfg)
	if err := r.down(); !strings.Contains(err.Error(), "does not know the session") {
		t.Errorf("it is down because %v", err)
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d sessions were opened", n)
	}
}

func TestAServerThatIsAway(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	r := run(t, s.config(t))
	r.up()
	s.Listener.Close()
	s.CloseClientConnections()
	_, f := r.call("pay", `{}`)
	// A connection in reserve was closed, which is seen or not before something
	// is written on it, or a new one was refused. In reserve are a few.
	for tries := 0; tries < 10 && f != nil && f.Code == tool.CodeDependencyUnavailable && f.ErrorType != "connection_refused"; tries++ {
		_, f = r.call("pay", `{}`)
	}
	wantFailure(t, f, tool.CodeDependencyUnavailable, tool.NotExecuted, "connection_refused")
	if !f.Unreached {
		t.Error("it does not concern the connection")
	}
	if n := s.ledger.count("paid"); n != 0 {
		t.Errorf("it ran %d times", n)
	}
}

func TestAServerThatComesLater(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	r := run(t, Config{URL: "http://" + addr + "?key=s3cret", HTTPClient: &http.Client{Transport: transport}, Timing: quick})
	if err := r.down(); !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("it is down because %v", err)
	}
	listener, err = net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(newLedger(t))
	web := &http.Server{Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)}
	go web.Serve(listener)
	t.Cleanup(func() { web.Close() })
	r.up()
	if got := r.want("echo", `{}`); got != "{}" {
		t.Errorf("got %q", got)
	}
}

func TestAnHTTPServerThatHangsIsFoundOut(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	cfg := s.config(t)
	cfg.Timing.PingEvery, cfg.Timing.Ping, cfg.Timing.Connect = 50*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond
	r := run(t, cfg)
	r.up()
	s.before(func(_ http.ResponseWriter, req *http.Request, _ string) bool {
		<-req.Context().Done()
		return true
	})
	if err := r.down(); !strings.Contains(err.Error(), "does not answer pings") {
		t.Errorf("it is down because %v", err)
	}
	s.before(nil)
	r.up()
}

// The stream of notifications may be refused, never answered, or end at once,
// over and over: the session goes on.
func TestTheStreamOfNotificationsIsOptional(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"refused":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"not found": http.NotFound,
		"a page":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello") },
		"hanging":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"broken":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"ending":    func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") },
		"garbage": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "garbage\n\ndata: {\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, mcp.StreamableHTTPOptions{})
			var asked atomic.Int64
			s.before(func(w http.ResponseWriter, req *http.Request, _ string) bool {
				if req.Method != http.MethodGet {
					return false
				}
				asked.Add(1)
				answer(w, req)
				return true
			})
			r := run(t, s.config(t))
			r.up()
			waitFor(t, "it was asked for", func() bool { return asked.Load() > 0 })
			if got := r.want("echo", `{}`); got != "{}" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestANotificationThatIsRefusedCostsNothing(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	s.before(func(w http.ResponseWriter, _ *http.Request, body string) bool {
		if strings.Contains(body, `"method":"notifications/cancelled"`) {
			s.ledger.write("refused")
			http.Error(w, "what is that?", http.StatusBadRequest)
			return true
		}
		return false
	})
	r := run(t, s.config(t))
	r.up()
	ctx, pass := deadline.On()
	go func() {
		defer pass()
		waitFor(t, "the tool runs", func() bool { return s.ledger.count("waiting") == 1 })
	}()
	_, f := r.Invoke(ctx, backend.Invocation{Target: "wait", Args: []byte(`{}`)})
	wantFailure(t, f, tool.CodeTimeout, tool.Ambiguous, "timeout")
	waitFor(t, "the notification was refused", func() bool { return s.ledger.count("refused") == 1 })
	if got := r.want("echo", `{}`); got != "{}" {
		t.Errorf("the session does not go on: %q", got)
	}
}

func TestCloseEndsTheSessionAtTheServer(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	var deleted atomic.Int64
	s.before(func(_ http.ResponseWriter, req *http.Request, _ string) bool {
		if req.Method == http.MethodDelete {
			deleted.Add(1)
		}
		return false
	})
	r := run(t, s.config(t))
	r.up()
	done := make(chan *tool.Failure, 1)
	go func() {
		_, f := r.call("wait", `{}`)
		done <- f
	}()
	waitFor(t, "the tool runs", func() bool { return s.ledger.count("waiting") == 1 })
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, <-done, tool.CodeDependencyUnavailable, tool.Ambiguous, "connection_lost")
	if deleted.Load() != 1 {
		t.Errorf("%d DELETEs", deleted.Load())
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, opts)
			var mu sync.Mutex
			addrs := make(map[string]bool)
			s.before(func(_ http.ResponseWriter, req *http.Request, body string) bool {
				if isCall(body) {
					mu.Lock()
					addrs[req.RemoteAddr] = true
					mu.Unlock()
				}
				return false
			})
			r := run(t, s.config(t))
			r.up()
			for range 50 {
				r.want("echo", `{}`)
			}
			// One may be busy with its end when the next call comes.
			if len(addrs) > 25 {
				t.Errorf("50 calls took %d connections", len(addrs))
			}
		})
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	client := &http.Client{}
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"nothing":         {Config{}, "needs a command or a url"},
		"both":            {Config{Command: []string{"x"}, URL: "http://x"}, "not both"},
		"empty command":   {Config{Command: []string{""}}, "no program"},
		"not a URL":       {Config{URL: "ftp://x", HTTPClient: client}, "not an http or https URL"},
		"no client":       {Config{URL: "http://x"}, "needs an HTTP client"},
		"idempotency key": {Config{URL: "http://x", HTTPClient: client, Headers: map[string]string{"idempotency-key": "1"}}, "sends a request again"},
		"own headers":     {Config{URL: "http://x", HTTPClient: client, Headers: map[string]string{"mcp-session-id": "1"}}, "belongs to the protocol"},
		"content type":    {Config{URL: "http://x", HTTPClient: client, Headers: map[string]string{"Content-Type": "x"}}, "belongs to the protocol"},
	} {
		tt.cfg.Name = "b"
		if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "backend b: ") {
			t.Errorf("%s: error is %v, want %q", name, err, tt.want)
		}
	}
}
