//go:build prove

package transports

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// frontLanes is how many MCP clients call at the same time, each over a proxy of its own.
const frontLanes = 8

// cutAt is where the stream of a call is cut, by turns.
type cutAt int

const (
	inTheRequest cutAt = iota
	atWork
	inTheAnswer
	cuts
)

// till takes payments behind an MCP front. A lane cuts its client off once in each call.
type till struct {
	ledger *upstream.Ledger
	lanes  []*frontLane
}

// ServeHTTP takes POST /LANE/KEY.
func (c *till) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var lane int
	if _, err := fmt.Sscanf(path.Dir(r.URL.Path), "/%d", &lane); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := c.ledger.Write(path.Base(r.URL.Path)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	c.lanes[lane].works()
	_, _ = fmt.Fprint(w, "paid ", path.Base(r.URL.Path))
}

// frontLane is one client, and the proxy before the front that it is served by.
type frontLane struct {
	number   int
	revision string
	proxy    *faultproxy.Proxy
	client   *http.Client
	session  *mcp.ClientSession

	mu   sync.Mutex
	next cutAt
	key  string // of the call to cut off; empty when that is done

	faults, repeated atomic.Int64
}

// arm has the next call cut off.
func (l *frontLane) arm(key string, at cutAt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.key, l.next = key, at
}

// fires reports whether a call is to be cut off here, once.
func (l *frontLane) fires(at cutAt, chunk []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.key == "" || l.next != at || chunk != nil && !bytes.Contains(chunk, []byte(l.key)) {
		return false
	}
	l.key = ""
	l.faults.Add(1)
	return true
}

// works is told when the payment is taken and not answered.
func (l *frontLane) works() {
	if l.fires(atWork, nil) {
		l.proxy.Cut()
	}
}

func (l *frontLane) hook(*faultproxy.Conn) faultproxy.Hook {
	return func(way faultproxy.Direction, chunk []byte) faultproxy.Action {
		switch {
		case way == faultproxy.ToTarget && l.fires(inTheRequest, chunk), way == faultproxy.ToClient && bytes.Contains(chunk, []byte("paid")) && l.fires(inTheAnswer, chunk):
			return faultproxy.Close(len(chunk) / 2)
		default:
			return faultproxy.Pass
		}
	}
}

// connect opens a session, which has no memory of the one before.
func (l *frontLane) connect(ctx context.Context) (err error) {
	if l.session != nil {
		_ = l.session.Close() // it may be broken
	}
	l.session, err = mcp.NewClient(&mcp.Implementation{Name: "prove", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: "http://" + l.proxy.Addr() + "/mcp", HTTPClient: l.client, MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: l.revision})
	return err
}

// pay makes one call, and sends it again, with another id of JSON-RPC, until it is answered. A client of the
// revision without sessions goes on as it is; one with a session opens another.
func (l *frontLane) pay(ctx context.Context, key string) (string, error) {
	for {
		res, err := l.session.CallTool(ctx, &mcp.CallToolParams{
			Name: "pay", Arguments: map[string]any{"lane": l.number, "key": key},
			Meta: mcp.Meta{"dev.sidecall/toolUseId": key, "dev.sidecall/conversationId": "prove"},
		})
		if err == nil {
			text, _ := res.Content[0].(*mcp.TextContent)
			return text.Text, nil
		}
		l.repeated.Add(1)
		if ctx.Err() != nil {
			return "", err
		}
		if err := l.connect(ctx); err != nil {
			return "", err
		}
	}
}

// Streams of calls to an MCP front are cut in mid-call, and the calls sent again as each revision
// says: each payment is taken once.
func TestMCPFrontStreamsCut(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			c := &till{ledger: upstream.NewLedger()}
			shop := httptest.NewServer(c)
			t.Cleanup(shop.Close)
			address := harness.FreePort(t)
			for i := range frontLanes {
				l := &frontLane{number: i, revision: revision, proxy: faultproxy.Start(t, address), client: &http.Client{Transport: &http.Transport{}}}
				l.proxy.Hook(l.hook)
				t.Cleanup(l.client.CloseIdleConnections)
				c.lanes = append(c.lanes, l)
			}
			harness.Start(t, fmt.Sprintf(`
http: %s
store: {embedded: {path: ./sidecall.db}}
backends: {shop: {trust: trusted, http: {base_url: %q, allow_private: true}}}
tools:
  pay:
    backend: shop
    effect: non_idempotent
    http: {method: POST, path: "/{lane}/{key}"}
    input_schema: {type: object, properties: {lane: {type: integer}, key: {type: string}}, required: [lane, key]}
`, address, shop.URL))
			c.isPaidOnce(t, revision, proof.Runs(60, 1_000))
		})
	}
}

// isPaidOnce makes so many calls, each of which is cut off once.
func (c *till) isPaidOnce(t *testing.T, revision string, calls int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proof.Pick(2*patience, 10*patience))
	defer cancel()
	var group errgroup.Group
	var violations atomic.Int64
	for i, l := range c.lanes {
		group.Go(func() error {
			if err := l.connect(ctx); err != nil {
				return err
			}
			defer func() { _ = l.session.Close() }() // it may be broken
			for n := i; n < calls; n += len(c.lanes) {
				key := fmt.Sprintf("key-%d-", n)
				l.arm(key, cutAt(n/len(c.lanes))%cuts)
				said, err := l.pay(ctx, key)
				if err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
				if ran := c.ledger.Executions(key); ran != 1 || !strings.Contains(said, "paid "+key) {
					violations.Add(1)
					t.Errorf("%s: %d payments, answered %q", key, ran, said)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var faults, repeated int64
	for _, l := range c.lanes {
		faults, repeated = faults+l.faults.Load(), repeated+l.repeated.Load()
	}
	if faults != int64(calls) || repeated < faults || c.ledger.Total() != calls {
		violations.Add(1)
		t.Errorf("of %d calls %d were cut off and %d sent again; %d payments", calls, faults, repeated, c.ledger.Total())
	}
	proof.Report(t, proof.Row{
		Fault: "MCP front " + revision + ": streams cut in mid-call, calls sent again", Store: "embedded", Runs: int(faults),
		Violations: int(violations.Load()), Figure: fmt.Sprintf("%d payments, %d requests sent again", c.ledger.Total(), repeated),
	})
}
