package httptool_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/tool"
)

// Two configs may say of one tool which request it is, and have one connection.
func TestTheSameConnectionsForOtherTools(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	before := at(t, server.URL)
	after := before.WithoutTools()
	for b, path := range map[*httptool.Backend]string{before: "/before", after: "/after"} {
		if err := b.Register("act", httptool.Spec{Method: http.MethodGet, Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	if err := before.Register("gone", httptool.Spec{Method: http.MethodGet, Path: "/gone"}); err != nil {
		t.Fatal(err)
	}
	ask := func(b *httptool.Backend, name string) string {
		reply, failure := b.Invoke(t.Context(), backend.Invocation{Tool: name, Effect: tool.ReadOnly, Args: []byte("{}")})
		if failure != nil {
			return failure.Error()
		}
		return string(reply.Text)
	}
	for _, c := range []struct {
		b          *httptool.Backend
		name, want string
	}{{before, "act", "/before"}, {after, "act", "/after"}, {before, "act", "/before"}, {before, "gone", "/gone"}, {after, "gone", "not registered"}} {
		if got := ask(c.b, c.name); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
