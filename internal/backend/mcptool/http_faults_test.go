package mcptool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/deadline"
)

// Whatever goes wrong with the connection after the tool ran: one POST, one
// execution, and the outcome is unknown.
func TestNothingIsSentTwice(t *testing.T) {
	run1 := func(s *site, r *http.Request) {
		// The tool runs and its answer is thrown away.
		s.inner.ServeHTTP(httptest.NewRecorder(), r)
	}
	for name, after := range map[string]func(t *testing.T, s *site, w http.ResponseWriter, r *http.Request){
		"closed without an answer": func(t *testing.T, s *site, w http.ResponseWriter, r *http.Request) {
			run1(s, r)
			conn, _ := hijack(t, w)
			conn.Close()
		},
		"closed after the headers": func(t *testing.T, s *site, w http.ResponseWriter, r *http.Request) {
			run1(s, r)
			conn, rw := hijack(t, w)
			fmt.Fprint(rw, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"jsonrpc\"")
			rw.Flush()
			conn.Close()
		},
		"event stream cut off": func(t *testing.T, s *site, w http.ResponseWriter, r *http.Request) {
			run1(s, r)
			conn, rw := hijack(t, w)
			fmt.Fprint(rw, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 1000\r\n\r\ndata: {\"json")
			rw.Flush()
			conn.Close()
		},
		"event stream without an answer": func(_ *testing.T, s *site, w http.ResponseWriter, r *http.Request) {
			run1(s, r)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": nothing\n\ndata: rubbish\n\nnonsense\n\n")
		},
		"event stream that cannot be resumed": func(_ *testing.T, s *site, w http.ResponseWriter, r *http.Request) {
			run1(s, r)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 1\nretry: 1\ndata:\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, mcp.StreamableHTTPOptions{})
			r := run(t, s.config(t))
			r.up()
			r.want("echo", `{}`) // so that the connection is a reused one
			s.posts.Store(0)
			s.before(func(w http.ResponseWriter, req *http.Request, body string) bool {
				switch {
				case isCall(body):
					after(t, s, w, req)
				case req.Header.Get("Last-Event-ID") != "":
					http.Error(w, "no such stream", http.StatusBadRequest)
				default:
					return false
				}
				return true
			})
			_, f := r.call("pay", `{}`)
			wantFailure(t, f, tool.CodeDependencyUnavailable, tool.Ambiguous, "connection_lost")
			if posts, paid := s.posts.Load(), s.ledger.count("paid"); posts != 1 || paid != 1 {
				t.Errorf("sent %d times, ran %d times", posts, paid)
			}
			s.before(nil)
			if got := r.want("echo", `{}`); got != "{}" {
				t.Errorf("the session does not go on: %q", got)
			}
		})
	}
}

func TestABrokenStreamIsResumedNotRepeated(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	r := run(t, s.config(t))
	r.up()
	resumed := false
	s.before(func(w http.ResponseWriter, req *http.Request, body string) bool {
		w.Header().Set("Content-Type", "text/event-stream")
		switch {
		case isCall(body):
			s.ledger.write("paid")
			fmt.Fprint(w, "id: 7\nretry: 1\ndata:\n\n")
		case req.Header.Get("Last-Event-ID") == "7":
			resumed = true
			fmt.Fprint(w, "id: 8\ndata: {\"jsonrpc\":\"2.0\",\"id\":5,\ndata: \"result\":{\"content\":[{\"type\":\"text\",\"text\":\"late\"}]}}\n\n")
		default:
			w.Header().Del("Content-Type")
			return false
		}
		return true
	})
	// The ids of the SDK count up: handshake and pages came before.
	got := make(chan string, 1)
	go func() {
		reply, f := r.call("pay", `{}`)
		if f != nil {
			got <- f.Error()
			return
		}
		got <- string(reply.Text)
	}()
	answer := <-got
	if !resumed || s.ledger.count("paid") != 1 || s.posts.Load() != 1 {
		t.Errorf("resumed %v, ran %d times, sent %d times: %s", resumed, s.ledger.count("paid"), s.posts.Load(), answer)
	}
	if answer != "late" {
		t.Errorf("the answer is %q", answer)
	}
}

// A stream may break off again before anything new has come, and who has the rest may be away for a moment: it is
// asked for behind the same event.
func TestAStreamThatIsResumedTwice(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	r := run(t, s.config(t))
	r.up()
	var asked string
	resumed := 0
	s.before(func(w http.ResponseWriter, req *http.Request, body string) bool {
		again := req.Header.Get("Last-Event-ID") == "7"
		if !isCall(body) && !again {
			return false
		}
		if again && resumed == 1 {
			resumed++
			http.Error(w, "no backend", http.StatusServiceUnavailable)
			return true
		}
		w.Header().Set("Content-Type", "text/event-stream")
		switch {
		case !again:
			asked = regexp.MustCompile(`"id":(\d+)`).FindStringSubmatch(body)[1]
			fmt.Fprint(w, "id: 7\nretry: 1\ndata:\n\n")
		case resumed < 1:
			resumed++
			fmt.Fprint(w, "retry: 1\n\n")
		default:
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"late\"}]}}\n\n", asked)
		}
		return true
	})
	if got := r.want("pay", `{}`); got != "late" || resumed != 2 || s.posts.Load() != 1 {
		t.Errorf("%q, resumed %d times before, sent %d times", got, resumed, s.posts.Load())
	}
}

// A server that has nothing to say yet, and says so by the end of the stream, is asked again for as long as the call has.
func TestAStreamThatIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(capture)
		for range 10 * resumes {
			if tries := c.resuming("7"); tries > 1 {
				t.Fatalf("%d tries", tries)
			}
			c.resumed(time.Now())
			time.Sleep(aWhile)
		}
		for tries := range resumes {
			if got := c.resuming("7"); got != tries+1 {
				t.Errorf("%d tries, want %d", got, tries+1)
			}
			time.Sleep(2 * aWhile) // as it cannot be reached
		}
	})
}

// resumesOnly counts the requests that ask for the rest of a stream.
type resumesOnly struct {
	http.RoundTripper
	count atomic.Int64
}

func (r *resumesOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Last-Event-ID") != "" {
		r.count.Add(1)
	}
	return r.RoundTripper.RoundTrip(req)
}

func TestADeadServerIsNotAskedForTheRestAgainAndAgain(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	counting := &resumesOnly{RoundTripper: &http.Transport{DisableKeepAlives: true}}
	cfg := s.config(t)
	cfg.HTTPClient = &http.Client{Transport: counting}
	r := run(t, cfg)
	r.up()
	s.before(func(w http.ResponseWriter, _ *http.Request, body string) bool {
		if !isCall(body) {
			return false
		}
		s.ledger.write("paid")
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 7\nretry: 1\ndata:\n\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		s.Listener.Close()
		panic(http.ErrAbortHandler) // the connection breaks, and nobody listens any more
	})
	_, f := r.call("pay", `{}`)
	wantFailure(t, f, tool.CodeDependencyUnavailable, tool.Ambiguous, "connection_lost")
	if asked, paid := counting.count.Load(), s.ledger.count("paid"); asked != 1 || paid != 1 {
		t.Errorf("asked %d times for the rest, ran %d times, want once each", asked, paid)
	}
	// The loss makes the session suspect, long before the next ping is due.
	if err := r.down(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("it is down because %v", err)
	}
}

func TestHTTPStatuses(t *testing.T) {
	for _, tt := range []struct {
		name      string
		status    int
		header    [2]string
		body      string
		rejects   []int
		code      tool.Code
		evidence  tool.Evidence
		errorType string
		after     time.Duration
		message   string
	}{
		{name: "unauthorized", status: 401, code: tool.CodeUnauthenticated, evidence: tool.Definite, errorType: "401"},
		{name: "forbidden", status: 403, body: "<html>no", code: tool.CodePermissionDenied, evidence: tool.Definite, errorType: "403"},
		{name: "redirect", status: 307, header: [2]string{"Location", "/elsewhere"}, code: tool.CodeUnrecoverable, evidence: tool.Definite, errorType: "307"},
		{name: "see other", status: 303, header: [2]string{"Location", "/elsewhere"}, code: tool.CodeUnrecoverable, evidence: tool.Ambiguous, errorType: "303"},
		{name: "not modified", status: 304, code: tool.CodeUnrecoverable, evidence: tool.Ambiguous, errorType: "304"},
		{name: "gone", status: 410, code: tool.CodeUnrecoverable, evidence: tool.Definite, errorType: "410"},
		{name: "rate limited", status: 429, header: [2]string{"Retry-After", "7"}, code: tool.CodeRateLimited, evidence: tool.Ambiguous, errorType: "429", after: 7 * time.Second},
		{name: "rate limited before work", status: 429, rejects: []int{429, 503}, code: tool.CodeRateLimited, evidence: tool.NotExecuted, errorType: "429"},
		{name: "unavailable", status: 503, code: tool.CodeDependencyUnavailable, evidence: tool.Ambiguous, errorType: "503"},
		{name: "internal error with JSON-RPC", status: 500, body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"kaput"}}`,
			code: tool.CodeDependencyUnavailable, evidence: tool.Ambiguous, errorType: "500", message: "kaput"},
		{name: "bad request with JSON-RPC", status: 400, body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"x is odd"}}`,
			code: tool.CodeInvalidArgs, evidence: tool.Ambiguous, errorType: "-32602", message: "x is odd"},
		{name: "a page instead of an answer", status: 200, header: [2]string{"Content-Type", "text/html"}, body: "<html>please log in",
			code: tool.CodeInvalidOutput, evidence: tool.Ambiguous, errorType: "invalid_output"},
		{name: "JSON that is no answer", status: 200, header: [2]string{"Content-Type", "application/json"}, body: `{"ok":true}`,
			code: tool.CodeInvalidOutput, evidence: tool.Ambiguous, errorType: "invalid_output"},
		{name: "an answer to another request", status: 200, header: [2]string{"Content-Type", "application/json"}, body: `[{"jsonrpc":"2.0","id":999,"result":{}}]`,
			code: tool.CodeInvalidOutput, evidence: tool.Ambiguous, errorType: "invalid_output"},
		{name: "accepted and nothing more", status: 202, code: tool.CodeInvalidOutput, evidence: tool.Ambiguous, errorType: "invalid_output"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, mcp.StreamableHTTPOptions{})
			r := run(t, s.config(t))
			r.up()
			// A call in flight must not suffer from its neighbour.
			other := make(chan *tool.Failure, 1)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() {
				_, f := r.Invoke(ctx, backend.Invocation{Target: "wait", Args: []byte(`{}`)})
				other <- f
			}()
			waitFor(t, "the other call runs", func() bool { return s.ledger.count("waiting") == 1 })

			s.posts.Store(0)
			s.before(func(w http.ResponseWriter, _ *http.Request, body string) bool {
				if !isCall(body) {
					return false
				}
				if tt.header[0] != "" {
					w.Header().Set(tt.header[0], tt.header[1])
				}
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.body)
				return true
			})
			reply, f := r.Invoke(context.Background(), backend.Invocation{Target: "pay", Args: []byte(`{}`), RejectsBeforeWork: tt.rejects})
			wantFailure(t, f, tt.code, tt.evidence, tt.errorType)
			if f.RetryAfter != tt.after || f.Message != tt.message {
				t.Errorf("retry after %s, message %q", f.RetryAfter, f.Message)
			}
			if reply.Status != tt.status && f.Code != tool.CodeInvalidArgs || !strings.HasPrefix(tt.body, string(reply.Text)) {
				t.Errorf("reply is %d %q", reply.Status, reply.Text)
			}
			if s.posts.Load() != 1 {
				t.Errorf("sent %d times", s.posts.Load())
			}
			s.before(nil)
			if got := r.want("echo", `{}`); got != "{}" {
				t.Errorf("the session does not go on: %q", got)
			}
			select {
			case f := <-other:
				t.Errorf("the call beside it ended: %v", f)
			default:
			}
			cancel()
			<-other
		})
	}
}

func TestAHugeResultOverHTTPCostsOnlyItsOwnCall(t *testing.T) {
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, opts)
			cfg := s.config(t)
			cfg.MaxMessage = 100_000
			r := run(t, cfg)
			r.up()
			_, f := r.call("big", `{"bytes":1000000}`)
			wantFailure(t, f, tool.CodeInvalidOutput, tool.Definite, "invalid_output")
			if got := len(r.want("big", `{"bytes":50000}`)); got != 50_000 {
				t.Errorf("the next result has %d bytes", got)
			}
			if n := s.ledger.count("big"); n != 2 {
				t.Errorf("the tool ran %d times", n)
			}
		})
	}
}

func TestAnEndlessAnswerIsBounded(t *testing.T) {
	for _, media := range []string{"application/json", "text/event-stream", "text/html"} {
		t.Run(media, func(t *testing.T) {
			s := newSite(t, mcp.StreamableHTTPOptions{})
			cfg := s.config(t)
			cfg.MaxMessage = 100_000
			r := run(t, cfg)
			r.up()
			ctx, pass := deadline.On()
			s.before(func(w http.ResponseWriter, req *http.Request, body string) bool {
				if !isCall(body) {
					return false
				}
				time.AfterFunc(200*time.Millisecond, pass) // in the middle of the answer
				w.Header().Set("Content-Type", media)
				chunk := strings.Repeat("data: xxxxxxxxx", 1000)
				for req.Context().Err() == nil {
					if _, err := io.WriteString(w, chunk); err != nil {
						break
					}
				}
				return true
			})
			_, f := r.Invoke(ctx, backend.Invocation{Target: "pay", Args: []byte(`{}`)})
			if f == nil {
				t.Fatal("no failure")
			}
			if f.Evidence == tool.NotExecuted {
				t.Errorf("failure is %+v", f)
			}
		})
	}
}

// A stream that is resumed again and again and says nothing new is given up, and the
// call that it answers with it: not the session, nor the calls beside it.
func TestAStreamThatGoesNowhereCostsOnlyItsOwnCall(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	r := run(t, s.config(t))
	r.up()
	other := make(chan *tool.Failure, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, f := r.Invoke(ctx, backend.Invocation{Target: "wait", Args: []byte(`{}`)})
		other <- f
	}()
	waitFor(t, "the other call runs", func() bool { return s.ledger.count("waiting") == 1 })
	before := r.current()
	s.before(func(w http.ResponseWriter, req *http.Request, body string) bool {
		if !isCall(body) && req.Header.Get("Last-Event-ID") != "7" {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 7\nretry: 1\ndata:\n\n")
		return true
	})
	_, f := r.call("pay", `{}`)
	wantFailure(t, f, tool.CodeDependencyUnavailable, tool.Ambiguous, "connection_lost")
	s.before(nil)
	r.want("echo", `{}`)
	if r.current() != before {
		t.Error("the session was lost for it")
	}
	cancel()
	wantFailure(t, <-other, tool.CodeCancelled, tool.Ambiguous, "cancelled")
}

// unreachable fails every request.
type unreachable struct{}

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) { return nil, syscall.ENETUNREACH }

// The SDK would give up the session once the rest could not be asked for so often.
func TestTheRestThatCannotBeAskedForCostsOnlyItsOwnCall(t *testing.T) {
	w := wireTo(newInbox(), 1000)
	w.base = unreachable{}
	c := asked(w.inbox)
	ask := func(after string) error {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.Header.Set("Last-Event-ID", after)
		resp, err := w.resume(req, c)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	for range resumes - 1 {
		if err := ask("7"); err == nil {
			t.Fatal("it is given up too early")
		}
	}
	if err := ask("8"); err == nil || c.settled() {
		t.Error("it is given up though it went on")
	}
	for range resumes - 2 {
		if err := ask("8"); err == nil {
			t.Fatal("it is given up too early")
		}
	}
	if err := ask("8"); err != nil || w.inbox.done(c).outcome != brokenOff {
		t.Errorf("it is not given up: %v", err)
	}
}
