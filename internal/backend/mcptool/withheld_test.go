package mcptool

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/conn"
	"github.com/sidecall/sidecall/internal/tool"
)

// right is a right to send that is lost at some time.
type right struct{ lost atomic.Bool }

func (r *right) Held() bool { return !r.lost.Load() }

// TestTheRightToSendIsAskedBeforeTheFirstByte: a call whose claim has run out is
// not sent, and the session that others use goes on.
func TestTheRightToSendIsAskedBeforeTheFirstByte(t *testing.T) {
	check := func(t *testing.T, r *running, l ledger) {
		t.Helper()
		session := r.current()
		held, lost := new(right), new(right)
		lost.lost.Store(true)
		for i := range 4 {
			_, f := r.Invoke(t.Context(), backend.Invocation{Target: "pay", Args: []byte(`{}`), Right: lost})
			wantFailure(t, f, tool.CodeStoreUnavailable, tool.NotExecuted, "lease_lost")
			if _, f = r.Invoke(t.Context(), backend.Invocation{Target: "pay", Args: []byte(`{}`), Right: held}); f != nil {
				t.Fatal(f)
			}
			if n := l.count("paid"); n != i+1 {
				t.Fatalf("it ran %d times, want %d", n, i+1)
			}
		}
		if r.state.Load().session != session {
			t.Error("the session was lost for it")
		}
	}
	t.Run("stdio", func(t *testing.T) {
		l := newLedger(t)
		r := run(t, stdio(t, "plain", l))
		r.up()
		check(t, r, l)
	})
	for name, watched := range map[string]bool{"HTTP": true, "HTTP, a client of which nothing is known": false} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, mcp.StreamableHTTPOptions{})
			cfg := s.config(t)
			if watched {
				cfg.HTTPClient.Transport.(*http.Transport).DialContext = conn.NewSet().Dialer(new(net.Dialer).DialContext)
			}
			r := run(t, cfg)
			r.up()
			check(t, r, s.ledger)
		})
	}
}

// TestAClaimThatRunsOutWhileTheConnectionIsMade: nothing is sent then.
func TestAClaimThatRunsOutWhileTheConnectionIsMade(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{JSONResponse: true})
	cfg := s.config(t)
	var slow atomic.Bool
	dialing, may := make(chan struct{}, 100), make(chan struct{})
	transport := cfg.HTTPClient.Transport.(*http.Transport)
	transport.DisableKeepAlives = true // each request makes its own
	transport.DialContext = conn.NewSet().Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		if slow.Load() {
			dialing <- struct{}{}
			<-may
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	})
	r := run(t, cfg)
	r.up()
	s.posts.Store(0)
	slow.Store(true)
	claim := new(right)
	ended := make(chan *tool.Failure, 1)
	go func() {
		_, f := r.Invoke(t.Context(), backend.Invocation{Target: "pay", Args: []byte(`{}`), Right: claim})
		ended <- f
	}()
	<-dialing
	claim.lost.Store(true)
	close(may)
	wantFailure(t, <-ended, tool.CodeStoreUnavailable, tool.NotExecuted, "lease_lost")
	if paid, posts := s.ledger.count("paid"), s.posts.Load(); paid != 0 || posts != 0 {
		t.Errorf("it ran %d times, %d requests arrived", paid, posts)
	}
}

// TestAnAnswerUnderAnotherIDAnswersNothing: on a connection that all calls share,
// and where a server sends what nobody asked for.
func TestAnAnswerUnderAnotherIDAnswersNothing(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	cfg := s.config(t)
	cfg.HTTPClient.Transport.(*http.Transport).DialContext = conn.NewSet().Dialer(new(net.Dialer).DialContext)
	r := run(t, cfg)
	r.up()
	// Over HTTP the server answers each call twice, in one packet.
	s.before(func(w http.ResponseWriter, req *http.Request, body string) bool {
		if !isCall(body) {
			return false
		}
		s.ledger.write("ran")
		var id int
		if _, err := fmt.Sscanf(body, `{"jsonrpc":"2.0","id":%d`, &id); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		conn, rw := hijack(t, w)
		for _, text := range []string{"own", "unasked"} {
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s %d"}]}}`, id, text, id)
			fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
		}
		_ = rw.Flush()
		t.Cleanup(func() { conn.Close() })
		return true
	})
	const calls = 30
	for i := range calls {
		reply, f := r.call("pay", `{}`)
		if f != nil || len(reply.Text) < 3 || string(reply.Text[:3]) != "own" {
			t.Fatalf("call %d: %q, %+v", i, reply.Text, f)
		}
	}
	if n := s.ledger.count("ran"); n != calls {
		t.Errorf("%d executions of %d calls", n, calls)
	}
}

// TestAnAnswerUnderAStaleIDAnswersNothing: on stdio all calls share one pipe.
func TestAnAnswerUnderAStaleIDAnswersNothing(t *testing.T) {
	ids := make([]jsonrpc.ID, 3)
	for i := range ids {
		id, err := jsonrpc.MakeID(float64(i + 1))
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = id
	}
	first, second := new(capture), new(capture)
	in := newInbox()
	in.await(ids[0], first)
	in.await(ids[1], second)
	answer := func(id jsonrpc.ID, text string) {
		in.accept(&jsonrpc.Response{ID: id, Result: []byte(text)}, int64(len(text)), 0)
	}
	answer(ids[0], `"own"`)
	answer(ids[0], `"once more"`) // of a call that is over
	answer(ids[2], `"stray"`)     // of one that was never made
	if second.settled() {
		t.Error("an answer to another call was taken")
	}
	if a := in.done(first); string(a.result) != `"own"` {
		t.Errorf("answered %s", a.result)
	}
}
