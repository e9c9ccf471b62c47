package assembly

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/backend/mcptool"
	"github.com/sidecall/sidecall/testkit/faultproxy"
	"github.com/sidecall/sidecall/testkit/harness"
)

// startSecureMCP is an MCP server over HTTP/2, behind a proxy.
func startSecureMCP(t *testing.T) (*faultproxy.Proxy, *tls.Config) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("a request over %s", r.Proto)
		}
		handler.ServeHTTP(w, r)
	}))
	site.EnableHTTP2 = true
	site.StartTLS()
	t.Cleanup(site.Close)
	t.Cleanup(site.CloseClientConnections)
	roots := x509.NewCertPool()
	roots.AddCert(site.Certificate())
	return faultproxy.Start(t, strings.TrimPrefix(site.URL, "https://")), &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// A connection on which nothing arrives any more is given up, so that the next
// session has another one. HTTP/2 has one for everything: without that, all
// sessions to come would be lost on it.
func TestAnMCPServerIsBackAfterItsConnectionWentSilent(t *testing.T) {
	proxy, trust := startSecureMCP(t)
	client := mcpClient(true)
	transport := client.Transport.(*http.Transport)
	transport.TLSClientConfig = trust
	t.Cleanup(transport.CloseIdleConnections)
	if transport.HTTP2 == nil || transport.HTTP2.SendPingTimeout <= 0 || transport.HTTP2.PingTimeout <= 0 {
		t.Fatal("a silent connection is never asked whether it lives")
	}
	transport.HTTP2.SendPingTimeout /= 20
	transport.HTTP2.PingTimeout /= 20

	b, err := mcptool.New(mcptool.Config{
		Name: "far", URL: "https://" + proxy.Addr(), HTTPClient: client,
		Timing: mcptool.Timing{
			Connect: 5 * time.Second, PingEvery: 100 * time.Millisecond, Ping: 500 * time.Millisecond,
			RestartBase: 20 * time.Millisecond, RestartMax: 100 * time.Millisecond,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	down := make(chan error, 100)
	go b.Run(t.Context(), func(_ []backend.Discovered, err error) {
		if err != nil {
			down <- err
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	answers := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, failure := b.Invoke(ctx, backend.Invocation{Target: "echo", Args: json.RawMessage(`{}`), MaxBytes: 1000})
		return failure == nil
	}
	harness.WaitFor(t, "the first session", answers)

	first := proxy.Conns()
	proxy.FreezeWhere(func(c *faultproxy.Conn) bool { return slices.Contains(first, c) })
	select {
	case <-down:
	case <-time.After(30 * time.Second):
		t.Fatal("the silence is not noticed")
	}
	harness.WaitFor(t, "a session on another connection", answers)
}
