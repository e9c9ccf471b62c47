//go:build prove

package transports

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// frontLanes is how many MCP clients call at the same time.
const frontLanes = 8

// tillConfig is a sidecar's before a till.
const tillConfig = `
store: {embedded: {path: ./sidecall.db}}
backends: {shop: {trust: trusted, http: {base_url: %q, allow_private: true}}}
tools:
  pay:
    backend: shop
    effect: non_idempotent
    http: {method: POST, path: "/{lane}/{key}"}
    input_schema: {type: object, properties: {lane: {type: integer}, key: {type: string}}, required: [lane, key]}
`

// proxied is a lane over a proxy of its own before a front.
func proxied(t *testing.T, address, revision string) *lane {
	t.Helper()
	proxy, client := faultproxy.Start(t, address), &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	l := &lane{cut: func() { proxy.Cut() }}
	l.open = func(ctx context.Context, _ *lane) (*mcp.ClientSession, error) {
		return mcp.NewClient(&mcp.Implementation{Name: "prove", Version: "1"}, nil).Connect(ctx,
			&mcp.StreamableClientTransport{Endpoint: "http://" + proxy.Addr() + "/mcp", HTTPClient: client, MaxRetries: -1},
			&mcp.ClientSessionOptions{ProtocolVersion: revision})
	}
	proxy.Hook(func(*faultproxy.Conn) faultproxy.Hook {
		return func(way faultproxy.Direction, chunk []byte) faultproxy.Action {
			switch {
			case way == faultproxy.ToTarget && l.fires(inTheRequest, chunk), way == faultproxy.ToClient && bytes.Contains(chunk, []byte("paid")) && l.fires(inTheAnswer, chunk):
				return faultproxy.Close(len(chunk) / 2)
			default:
				return faultproxy.Pass
			}
		}
	})
	return l
}

// Streams of calls to an MCP front are cut in mid-call, and the calls sent again as each revision
// says: each payment is taken once.
func TestMCPFrontStreamsCut(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			c, address := openTill(), harness.FreePort(t)
			shop := httptest.NewServer(c)
			t.Cleanup(shop.Close)
			for range frontLanes {
				c.add(proxied(t, address, revision))
			}
			harness.Start(t, "http: "+address+fmt.Sprintf(tillConfig, shop.URL))
			c.isPaidOnce(t, "MCP front "+revision+": streams cut in mid-call, calls sent again", proof.Runs(60, 1_000))
		})
	}
}
