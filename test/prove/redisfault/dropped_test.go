//go:build prove

package redisfault

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

const droppedConfig = `
store: {redis: {addrs: [%q]}}
lease: 3s
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools:
  act: {backend: up, http: {method: POST, path: /act}}
`

// Redis drops the records of calls that are running, as one does whose clock jumps
// past the retention. Once their owner has renewed, no other sidecar runs them,
// and their results are recorded all the same.
func TestRecordsOfRunningCallsAreDropped(t *testing.T) {
	w := &worked{executions: map[string]int{}}
	rounds, calls := proof.Runs(2, 20), 50
	redis := redisserver.Start(t, redisserver.Options{})
	up := httptest.NewServer(w)
	t.Cleanup(up.Close)
	owner, other := harness.Start(t, fmt.Sprintf(droppedConfig, redis.Addr, up.URL)), harness.Start(t, fmt.Sprintf(droppedConfig, redis.Addr, up.URL))
	violations, ran := 0, 0
	violate := func(format string, args ...any) {
		violations++
		t.Errorf(format, args...)
	}
	for round := range rounds {
		w.close()
		ids := make([]string, calls)
		results := make([]*sidecallv1.ExecuteToolResponse, calls)
		var running sync.WaitGroup
		for i := range ids {
			ids[i] = fmt.Sprintf("round%d-%d", round, i)
			running.Go(func() { results[i] = sent(t, owner, ids[i]) })
		}
		harness.WaitFor(t, "the calls to run", func() bool { return w.of(ids) == calls })
		names := []any{"del"}
		for _, id := range ids {
			names = append(names, redisstore.RecordKey("sidecall:", tool.CallID{Conversation: "c", ID: id}))
		}
		if n, _ := redis.Do(names...).(int64); n != int64(calls) {
			t.Fatalf("%d of %d records were there to be dropped", n, calls)
		}
		names[0] = "exists"
		harness.WaitFor(t, "the records to be written back", func() bool { n, _ := redis.Do(names...).(int64); return n == int64(calls) })
		for _, id := range ids {
			if res := sent(t, other, id); res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
				violate("%s, while it runs elsewhere: %v", id, res)
			}
		}
		w.open()
		running.Wait()
		for i, id := range ids {
			if results[i].GetIsError() || !results[i].GetRecorded() {
				violate("%s: its owner says %v", id, results[i])
			}
			ran++
			if res := sent(t, other, id); !res.GetReplayed() || res.GetContent() != results[i].GetContent() {
				violate("%s: replayed as %v", id, res)
			}
		}
		if n := w.of(ids); n != calls {
			violate("%d executions of %d calls", n, calls)
		}
	}
	proof.Report(t, proof.Row{
		Fault: "records of running calls dropped", Store: "redis", Runs: ran, Violations: violations,
		Figure: fmt.Sprintf("%d calls running, their records deleted; UNKNOWN to another sidecar after the next renewal, run once, recorded at their end", ran),
	})
}

// sent makes a call.
func sent(t *testing.T, s *harness.Sidecar, id string) *sidecallv1.ExecuteToolResponse {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := s.Client.ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{
		ConversationId: "c", ToolUseId: id, ToolName: "act", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id),
	})
	if err != nil {
		t.Errorf("%s: %v", id, err)
	}
	return res
}

// worked is an upstream that executes at once, and answers when it is opened.
type worked struct {
	mu         sync.Mutex
	executions map[string]int
	gate       chan struct{}
}

func (w *worked) close() { w.mu.Lock(); defer w.mu.Unlock(); w.gate = make(chan struct{}) }

func (w *worked) open() { w.mu.Lock(); defer w.mu.Unlock(); close(w.gate) }

// of is how many executions there were of some ids together.
func (w *worked) of(ids []string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		n += w.executions[id]
	}
	return n
}

func (w *worked) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	var args struct {
		Key string `json:"key"`
	}
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	w.executions[args.Key]++
	gate := w.gate
	w.mu.Unlock()
	select {
	case <-gate:
	case <-r.Context().Done():
	}
	_, _ = fmt.Fprintf(out, `{"did":%q}`, args.Key) // a client that left is not our concern
}
