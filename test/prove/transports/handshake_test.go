//go:build prove

package transports

import (
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// The TLS handshakes of many calls take longer than their leases. Meanwhile their
// owner is cut off from Redis, an operator settles them as not run, and they are sent
// again to another sidecar and run. When the handshakes are done at last, the owner
// writes nothing.
func TestHandshakesLongerThanTheLease(t *testing.T) {
	t.Parallel()
	redis := redisserver.Start(t, redisserver.Options{})
	for _, protocol := range []string{"http/1.1", "http/2"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			h := newHandshakes(t, protocol == "http/2", redis.Addr)
			h.control()
			rounds, calls := proof.Runs(1, 10), proof.Runs(20, 100)
			for round := range rounds {
				h.round(round, calls)
			}
			h.server.Close() // when all its handlers have ended
			for id, n := range h.site.ledger.Counts() {
				if n != 1 {
					h.broken("%s: %d executions in the end", id, n)
				}
			}
			proof.Report(t, proof.Row{
				Fault: "handshake longer than the lease, settled as not run, sent again: " + protocol, Store: "redis", Runs: h.calls, Violations: h.violations,
				Figure: fmt.Sprintf("%d calls run once, by who sent them again; %d connections were there when they were another's, over which their owner wrote nothing",
					h.calls, h.connections),
			})
		})
	}
}

// handshakes is the proof, for one protocol.
type handshakes struct {
	*audit
	server                *httptest.Server
	owner, other          *harness.Sidecar
	operators             sidecallv1.OperatorServiceClient // of the other
	toStore, toUpstream   *faultproxy.Proxy
	connections, requests int // requests are those that have to have come

	mu sync.Mutex // guards what is broken
}

func (h *handshakes) broken(format string, args ...any) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.audit.broken(format, args...)
}

func newHandshakes(t *testing.T, http2 bool, redis string) *handshakes {
	t.Helper()
	h := &handshakes{audit: &audit{t: t, site: newSite()}}
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.URL.Path, "/act/")
		h.site.arrives("all")
		h.site.executes(t, key, key, false)
		fmt.Fprint(w, "done ", key)
	}))
	h.server.EnableHTTP2 = http2
	h.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of connections that HTTP/2 has no need of
	h.server.StartTLS()
	t.Cleanup(h.server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	direct := strings.TrimPrefix(h.server.URL, "https://")
	h.toStore, h.toUpstream = faultproxy.Start(t, redis), faultproxy.Start(t, direct)
	// Nothing but the lease ends: a machine that stands still has all the time it needs.
	config := func(store, up string) string {
		return fmt.Sprintf(`
store: {redis: {addrs: [%q], key_prefix: "handshakes-%t:"}}
lease: 2s
backends:
  up: {http: {base_url: "https://%s", allow_private: true, http2: %t, connect_timeout: 10m, tls: {ca: %q}}, adaptive: false, max_in_flight: 10000}
tools:
  act: {backend: up, description: Does it., attempt_timeout: 10m, deadline: 10m, http: {method: POST, path: "/act/{key}"}}
`, store, http2, up, http2, ca)
	}
	h.owner = harness.New(t, config(h.toStore.Addr(), h.toUpstream.Addr()))
	h.other = harness.Start(t, config(redis, direct))
	h.operators = h.other.Operators()
	return h
}

// control: a handshake that takes as long, and whose owner is not cut off: it goes on
// and sends.
func (h *handshakes) control() {
	h.t.Helper()
	h.owner.Run()
	h.toUpstream.Freeze()
	answers := h.begin("control", 1)
	record := h.record("control-0")
	harness.WaitFor(h.t, "a renewal", func() bool {
		return h.record("control-0").GetLeaseUntil().AsTime().Sub(record.GetLeaseUntil().AsTime()) > 0
	})
	h.toUpstream.Thaw()
	if res := <-answers; res.GetIsError() || h.site.ledger.Executions("control-0") != 1 {
		h.t.Fatalf("with its claim it got %v", res)
	}
	h.requests++
	h.owner.Kill()
}

// round has so many calls in their handshakes at the same time.
func (h *handshakes) round(round, calls int) {
	h.t.Helper()
	h.owner.Run()
	h.toUpstream.Freeze()
	name := fmt.Sprintf("round%d", round)
	answers := h.begin(name, calls)
	h.toStore.Freeze()
	harness.WaitFor(h.t, "the leases to end", func() bool { return h.unknown() == calls })
	var again sync.WaitGroup
	for n := range calls {
		again.Go(func() { h.again(fmt.Sprintf("%s-%d", name, n)) })
	}
	again.Wait()
	h.requests += calls
	open := len(h.toUpstream.Conns())
	if n := len(answers); n > 0 || open != calls {
		h.broken("%d calls were answered before there was a connection, of which %d were being made", n, open)
	}
	h.toUpstream.Thaw()
	h.toStore.Thaw()
	for range calls {
		if res := <-answers; res.GetError().GetCode() != "STORE_UNAVAILABLE" || res.GetRecovery().GetAttempts() != 0 {
			h.broken("the owner's caller got %v", res)
		}
	}
	h.owner.Kill()
	harness.WaitFor(h.t, "the end of the owner's connections", func() bool { return len(h.toUpstream.Conns()) == 0 })
	if n := h.site.requests("all"); n != h.requests {
		h.broken("%d requests have come, want %d", n, h.requests)
	}
	h.calls += calls
	h.connections += open
}

// begin sends calls to the owner, and returns when each of them waits for a handshake.
func (h *handshakes) begin(name string, calls int) <-chan *sidecallv1.ExecuteToolResponse {
	h.t.Helper()
	answers := make(chan *sidecallv1.ExecuteToolResponse, calls)
	for n := range calls {
		go func() { // ends with its answer, or with the owner
			res, err := h.send(h.owner, fmt.Sprintf("%s-%d", name, n))
			if err != nil {
				h.broken("the owner's caller: %v", err)
			}
			answers <- res
		}()
	}
	harness.WaitFor(h.t, "the handshakes", func() bool { return len(h.toUpstream.Conns()) == calls })
	return answers
}

// send makes a call that has all the time there is.
func (h *handshakes) send(s *harness.Sidecar, id string) (*sidecallv1.ExecuteToolResponse, error) {
	return s.Client.ExecuteTool(h.t.Context(), &sidecallv1.ExecuteToolRequest{
		ConversationId: "c", ToolUseId: id, ToolName: "act", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id),
	})
}

// again has an operator say that a call has not run, and sends it again.
func (h *handshakes) again(id string) {
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	if _, err := h.operators.ResolveExecution(ctx, &sidecallv1.ResolveExecutionRequest{
		ConversationId: "c", ToolUseId: id, State: sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN, Reason: "it is not in the ledger",
	}); err != nil {
		h.broken("%s: %v", id, err)
	}
	if res, err := h.send(h.other, id); err != nil || res.GetIsError() || res.GetReplayed() || h.site.ledger.Executions(id) != 1 {
		h.broken("%s: sent again it got %v, %v", id, res, err)
	}
}

// unknown is how many calls an operator sees of which nobody knows.
func (h *handshakes) unknown() (n int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	for token := ""; ; {
		page, err := h.operators.ListUnknown(ctx, &sidecallv1.ListUnknownRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			h.t.Fatal(err)
		}
		n += len(page.GetExecutions())
		if token = page.GetNextPageToken(); token == "" {
			return n
		}
	}
}

func (h *handshakes) record(id string) *sidecallv1.Execution {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	record, err := h.other.Client.GetExecution(ctx, &sidecallv1.GetExecutionRequest{ConversationId: "c", ToolUseId: id})
	if err != nil {
		h.t.Fatal(err)
	}
	return record
}
