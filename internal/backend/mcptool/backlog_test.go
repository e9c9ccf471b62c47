package mcptool

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK answers each request of a server in a goroutine of its own, however many
// there are: one that asked and did not read filled the memory.
func TestAServerThatAsksAndDoesNotReadIsBounded(t *testing.T) {
	l := newLedger(t)
	cfg := stdio(t, "asking", l)
	cfg.Timing.PingEvery, cfg.Timing.Ping = time.Hour, time.Hour
	r := run(t, cfg)
	r.up()
	waitFor(t, "it has asked", func() bool { return l.count("asked") == 1 })
	if n := runtime.NumGoroutine(); n > 1000 {
		t.Errorf("%d goroutines are at work on 20,000 pings", n)
	}
}

// asksBack adds a tool that asks whoever calls it more often than may wait.
func asksBack(s *mcp.Server) {
	s.AddTool(&mcp.Tool{Name: "asks back", InputSchema: anyObject}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for range 3 * maxAsked {
			if err := req.Session.Ping(ctx, nil); err != nil {
				return nil, err
			}
		}
		return text("answered"), nil
	})
}

// One that reads its answers may ask as often as it likes.
func TestAServerThatAsksAndReadsIsAnswered(t *testing.T) {
	s := newSite(t, kinds["events"])
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	asksBack(server)
	s.mu.Lock()
	s.inner = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, s.opts)
	s.mu.Unlock()
	for name, cfg := range map[string]Config{"stdio": stdio(t, "asking back", newLedger(t)), "http": s.config(t)} {
		t.Run(name, func(t *testing.T) {
			r := run(t, cfg)
			r.up()
			if got := r.want("asks back", `{}`); got != "answered" {
				t.Errorf("the tool says %q", got)
			}
		})
	}
}

func TestWhatWaitsOfAServerIsBounded(t *testing.T) {
	id, err := jsonrpc.MakeID("s1")
	if err != nil {
		t.Fatal(err)
	}
	ping := &jsonrpc.Request{ID: id, Method: "ping"}
	changed := &jsonrpc.Request{Method: "notifications/tools/list_changed"}
	in := newInbox()
	count := func(r *jsonrpc.Request) (passed int) {
		for range 1000 {
			if in.wanted(r) {
				passed++
			}
		}
		return passed
	}
	if pings, changes := count(ping), count(changed); pings != maxAsked || changes != maxChanges {
		t.Errorf("%d pings and %d changes wait", pings, changes)
	}
	in.answered()
	in.relisted()
	if pings, changes := count(ping), count(changed); pings != 1 || changes != maxChanges {
		t.Errorf("after an answer %d more pings, after a list %d changes", pings, changes)
	}
	large := &jsonrpc.Request{ID: id, Method: "ping", Params: json.RawMessage(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)}
	if slim := slimmed(large); slim.Params != nil || slim.ID != id || slimmed(ping) != ping {
		t.Errorf("%d bytes of parameters wait", len(slim.Params))
	}
}
