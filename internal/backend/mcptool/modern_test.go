package mcptool

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// A server that refuses the handshake of the settled protocol gets the newest.
func TestAServerThatKnowsOnlyTheNewestProtocol(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{Stateless: true})
	s.before(func(w http.ResponseWriter, _ *http.Request, body string) bool {
		if !strings.Contains(body, `"method":"initialize"`) {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`)
		return true
	})
	r := run(t, s.config(t))
	if err := r.down(); !strings.Contains(err.Error(), "Method not found") {
		t.Errorf("it is down because %v", err)
	}
	if tools := r.up(); len(tools) < 14 {
		t.Errorf("only %d tools", len(tools))
	}
	if v := r.current().client.InitializeResult().ProtocolVersion; v != newestProtocol {
		t.Errorf("the protocol is %s", v)
	}
	args := `{"n":9007199254740993}`
	if got := r.want("echo", args); got != args {
		t.Errorf("echo says %q", got)
	}
	_, f := r.call("fail", `{}`)
	wantFailure(t, f, tool.CodeUnrecoverable, tool.Ambiguous, "tool_error")
	if got := r.want("meta", `{}`); !strings.Contains(got, newestProtocol) {
		t.Errorf("_meta is %s", got)
	}
}

// A server that is away is asked in the settled way when it comes back: one
// that knows no other could hang on the newest.
func TestARefusedConnectionChangesNoProtocol(t *testing.T) {
	s := newSite(t, mcp.StreamableHTTPOptions{})
	s.Listener.Close()
	r := run(t, s.config(t))
	r.down()
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if r.modern {
		t.Error("the newest protocol would be tried next")
	}
}

func BenchmarkCall(b *testing.B) {
	server := newServer(ledger{})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{JSONResponse: true})
	for name, cfg := range map[string]func(*testing.B) Config{
		"stdio": func(b *testing.B) Config { return stdio(b, "plain", ledger{}) },
		"http": func(b *testing.B) Config {
			s := httptest.NewServer(handler)
			b.Cleanup(s.Close)
			return Config{URL: s.URL, HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}, Timing: quick}
		},
	} {
		b.Run(name, func(b *testing.B) {
			r := run(b, cfg(b))
			r.up()
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, f := r.Invoke(context.Background(), backend.Invocation{Target: "echo", Args: []byte(`{"text":"hello"}`)})
					if f != nil {
						b.Error(f)
					}
				}
			})
		})
	}
}
