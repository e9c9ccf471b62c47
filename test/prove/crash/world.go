//go:build prove

package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/scratch"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

type (
	request  = sidecallv1.ExecuteToolRequest
	response = sidecallv1.ExecuteToolResponse
)

// patience bounds a call on a machine that is busy.
const patience = time.Minute

// The tools, one of each effect that matters here.
const (
	act  = "act"  // non_idempotent
	pay  = "pay"  // keyed; the upstream honours the key
	look = "look" // read_only
)

var tools = []string{act, pay, look}

// world is an upstream that outlives every sidecar. What it has done is on the
// disk before it answers.
type world struct {
	URL  string
	path string // of the ledger

	ledger *upstream.Ledger
	mu     sync.Mutex // guards the rest
	asked  map[string]int
	holds  map[string]*hold
	pause  time.Duration // see slow
}

// hold keeps the answer to one request back.
type hold struct {
	done chan struct{} // closed when the work is done
	open chan struct{} // closed by whoever lets the answer out
}

func startWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		path:  filepath.Join(t.TempDir(), "ledger"),
		asked: map[string]int{}, holds: map[string]*hold{},
	}
	ledger, err := upstream.OpenLedger(w.path)
	if err != nil {
		t.Fatal(err)
	}
	w.ledger = ledger
	up := upstream.New(ledger)
	up.HonourKeys("/" + pay)
	server := httptest.NewServer(w.handler(up))
	w.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		key := r.URL.Query().Get("key")
		w.mu.Lock()
		w.asked[key]++
		held := w.holds[key]
		delete(w.holds, key)
		pause := w.pause
		w.mu.Unlock()
		wait(pause)
		next.ServeHTTP(rw, r) // the answer is sent on return
		wait(pause)
		if held == nil {
			return
		}
		close(held.done)
		select {
		case <-held.open:
		case <-r.Context().Done():
		}
	})
}

// slow makes every request take a little while before its work is done and a
// little while after it, each at most most.
func (w *world) slow(most time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pause = most
}

func wait(most time.Duration) {
	if most > 0 {
		<-time.After(rand.N(most))
	}
}

// hold keeps back the answer to the next request of a call.
func (w *world) hold(id string) *hold {
	h := &hold{done: make(chan struct{}), open: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds[id] = h
	return h
}

// await waits until the work is done, and fails the test when the request does
// not come.
func (h *hold) await(t *testing.T) {
	t.Helper()
	select {
	case <-h.done:
	case <-time.After(patience):
		t.Fatal("waited in vain for the request whose answer is to be held back")
	}
}

// requests is how many requests of a call have come, carried out or not.
func (w *world) requests(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[id]
}

// onDisk is what the ledger's file says, by id.
func (w *world) onDisk(t *testing.T) map[string]int {
	t.Helper()
	ledger, err := upstream.OpenLedger(w.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	}()
	return ledger.Counts()
}

// config is the config of a sidecar in front of the world. The bounds on its
// calls in flight are out of the way: they would refuse some of a flood.
func (w *world) config(store string, lease time.Duration) string {
	return fmt.Sprintf(`
store: %s
lease: %s
backends:
  up: {http: {base_url: %q, allow_private: true}, adaptive: false, max_in_flight: 10000}
tools:
  act: {backend: up, effect: non_idempotent, http: {method: POST, path: /act, query: {key: key}}}
  pay: {backend: up, effect: keyed, http: {method: POST, path: /pay, query: {key: key}, idempotency_header: Idempotency-Key}}
  look: {backend: up, effect: read_only, http: {method: GET, path: /look, query: {key: key}}}
`, store, lease, w.URL)
}

const embeddedStore = "{embedded: {path: sidecall.db}}"

// startRedis starts a Redis that has everything on disk before it answers, and
// returns it as a store of the config.
func startRedis(t *testing.T) string {
	t.Helper()
	server := redisserver.Start(t, redisserver.Options{Dir: scratch.Dir(t), Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	return fmt.Sprintf("{redis: {addrs: [%q]}}", server.Addr)
}

// callOf is a call that the ledger counts under its id.
func callOf(tool, id string) *request {
	return &request{ToolUseId: id, ToolName: tool, ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id)}
}

// send makes a call.
func send(t *testing.T, s *harness.Sidecar, tool, id string) (*response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.Client.ExecuteTool(ctx, callOf(tool, id))
}

// record asks for the record of a call; its state is UNSPECIFIED when there is
// none.
func record(t *testing.T, s *harness.Sidecar, id string) (*sidecallv1.Execution, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	execution, err := s.Client.GetExecution(ctx, &sidecallv1.GetExecutionRequest{ToolUseId: id})
	if isNotFound(err) {
		return &sidecallv1.Execution{}, nil
	}
	return execution, err
}

// sameAnswer compares two answers byte for byte, but for the one field in
// which a replay differs.
func sameAnswer(a, b *response) bool {
	a, b = proto.CloneOf(a), proto.CloneOf(b)
	a.Replayed, b.Replayed = false, false
	return proto.Equal(a, b)
}
