//go:build prove

package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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

const (
	// worldsAtOnce is how many worlds run side by side. Most of the time they
	// wait: for a settlement to give up, for a process to start.
	worldsAtOnce = 4
	// patience bounds a call on a machine that is busy.
	patience = time.Minute
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", fmt.Sprint(worldsAtOnce)); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

type response = sidecallv1.ExecuteToolResponse

// world is a Redis that remembers over a kill -9, two sidecars on it, and an
// upstream that does its work at once and answers when the gate is opened.
type world struct {
	redis  *redisserver.Server
	s      *harness.Sidecar // the one that things are done to
	other  *harness.Sidecar // sees nothing but the store
	ledger *upstream.Ledger

	mu   sync.Mutex
	gate chan struct{}
}

func startWorld(t *testing.T) *world {
	t.Helper()
	w := &world{gate: make(chan struct{})}
	ledger, err := upstream.OpenLedger(filepath.Join(t.TempDir(), "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	w.ledger = ledger
	server := httptest.NewServer(w)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	w.redis = redisserver.Start(t, redisserver.Options{Dir: scratch.Dir(t), Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	config := fmt.Sprintf(`store: {redis: {addrs: [%q]}}
lease: 2s
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools: {act: {backend: up, http: {method: POST, path: /act}, input_schema: {type: object, properties: {key: {type: string}}, required: [key]}}}
`, w.redis.Addr, server.URL)
	w.s, w.other = harness.Start(t, config), harness.Start(t, config)
	return w
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var args struct{ Key string }
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &args)
	}
	w.mu.Lock()
	gate := w.gate
	w.mu.Unlock()
	if err == nil {
		err = w.ledger.Write(args.Key)
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	select {
	case <-gate:
		_, _ = fmt.Fprintf(rw, `{"done":%q,"more":%q}`, args.Key, strings.Repeat(args.Key, 1+len(args.Key)%7))
	case <-r.Context().Done():
	}
}

// hold closes the gate to the requests that come from now on; the function
// opens it.
func (w *world) hold() (open func()) {
	gate := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = gate
	return func() { close(gate) }
}

// call makes a call at a sidecar; an error when the sidecar was killed.
func call(s *harness.Sidecar, id string) (*response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.Client.ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{
		ToolUseId: id, ToolName: "act", ConversationId: "c", TurnId: "1", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id),
	})
}

// same reports whether a response is the replay of another, byte for byte.
func same(t *testing.T, first, again *response) bool {
	t.Helper()
	plain := func(res *response) []byte {
		res = proto.CloneOf(res)
		res.Replayed, res.Recorded = false, false
		encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		return encoded
	}
	return again.GetReplayed() && bytes.Equal(plain(first), plain(again))
}

// journalSize is the size of the entries in the sidecar's journal now, in bytes, those
// included that are being written.
func (w *world) journalSize() (size int64) {
	files, err := os.ReadDir(filepath.Join(w.s.Dir, "sidecall.journal"))
	if err != nil {
		return 0
	}
	for _, file := range files {
		if info, err := file.Info(); err == nil {
			size += info.Size()
		}
	}
	return size
}

// awaitReplay waits until nothing waits in the sidecar's journal and it has the
// store.
func (w *world) awaitReplay(t *testing.T) {
	t.Helper()
	harness.WaitFor(t, "the replay of the journal", func() bool {
		code, text := w.s.Get("/readyz")
		var body struct {
			Journal struct{ Waiting int }
		}
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatalf("/readyz: %v: %s", err, text)
		}
		return code == http.StatusOK && body.Journal.Waiting == 0
	})
}

// awaitOther waits until the other sidecar has the store: its connections need
// up to a second to find out.
func (w *world) awaitOther(t *testing.T) {
	t.Helper()
	harness.WaitFor(t, "the store at the other sidecar", func() bool {
		code, _ := w.other.Get("/readyz")
		return code == http.StatusOK
	})
}

// tally counts what several worlds see.
type tally struct {
	mu         sync.Mutex
	counts     map[string]int
	longest    time.Duration
	violations int
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (y *tally) add(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts[what] += n
}

func (y *tally) took(d time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.longest = max(y.longest, d)
}

// broken counts and reports a broken promise.
func (y *tally) broken(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Errorf(format, args...)
	y.mu.Lock()
	defer y.mu.Unlock()
	y.violations++
}
