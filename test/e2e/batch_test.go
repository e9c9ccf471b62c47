//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// batch runs the calls of one turn; every call gets its one result, in order.
func batch(t *testing.T, s *harness.Sidecar, calls ...*sidecallv1.ExecuteToolRequest) []*sidecallv1.ExecuteToolResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	res, err := s.Client.ExecuteTools(ctx, &sidecallv1.ExecuteToolsRequest{Calls: calls})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.GetResults()) != len(calls) {
		t.Fatalf("%d results of %d calls", len(res.GetResults()), len(calls))
	}
	for i, result := range res.GetResults() {
		if result.GetToolUseId() != calls[i].GetToolUseId() {
			t.Errorf("result %d is of %s, want %s", i, result.GetToolUseId(), calls[i].GetToolUseId())
		}
	}
	return res.GetResults()
}

// One result each, in order, whatever any one of the calls does; and the same
// again when the whole batch is sent a second time.
func TestBatchWithEverythingInIt(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	up.Script("/lost", upstream.CloseAfter())
	up.Script("/hang", upstream.Hang())
	s := harness.Start(t, oneTool(up.URL)+`
  lost: {backend: up, http: {method: POST, path: /lost}}
  hang: {backend: up, http: {method: POST, path: /hang}}
  narrow: {backend: up, http: {method: POST, path: /narrow}, input_schema: {type: object, properties: {n: {type: integer}}, required: [n]}}
`)
	turn := func() []*sidecallv1.ExecuteToolRequest {
		calls := []*sidecallv1.ExecuteToolRequest{
			callOf("good"),
			{ToolUseId: "unknown_tool", ToolName: "actt"},
			{ToolUseId: "bad_args", ToolName: "narrow", ArgumentsJson: `{"n":"one"}`},
			{ToolUseId: "bad_json", ToolName: "act", ArgumentsJson: `{"key":`},
			{ToolUseId: "lost", ToolName: "lost"},
			{ToolUseId: "hang", ToolName: "hang", Timeout: durationpb.New(5 * time.Second)},
			callOf("good"), // a duplicate in the same batch
			callOf("last"),
		}
		for _, call := range calls {
			call.ConversationId, call.TurnId = "c", "turn-1"
		}
		return calls
	}
	want := []string{"", "UNKNOWN_TOOL", "INVALID_ARGS", "INVALID_ARGS", "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN", "", ""}
	recorded := []int{0, 4, 5, 6, 7}
	first := batch(t, s, turn()...)
	for i, code := range want {
		if code != "" {
			wantError(t, first[i], code)
		} else if first[i].GetIsError() {
			t.Errorf("%s: %s", first[i].GetToolUseId(), first[i].GetContent())
		}
	}
	if first[0].GetContent() != first[6].GetContent() || first[0].GetReplayed() == first[6].GetReplayed() {
		t.Errorf("the duplicate in the batch: %v and %v", first[0], first[6])
	}
	executions := up.Ledger.Total()
	for i, again := range batch(t, s, turn()...) {
		if again.GetContent() != first[i].GetContent() || again.GetReplayed() != slices.Contains(recorded, i) {
			t.Errorf("sent again: %v, first: %v", again, first[i])
		}
	}
	if n := up.Ledger.Total(); n != executions || n != 4 {
		t.Errorf("%d executions after the first time, %d after the second, want 4", executions, n)
	}
	lives(t, s)
}

// 128 calls at once are a batch; those of sequential tools run one after the
// other, in request order.
func TestBatchOrder(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string
	inside, most := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/step" {
			mu.Lock()
			order = append(order, string(body))
			inside++
			most = max(most, inside)
			mu.Unlock()
			defer func() {
				mu.Lock()
				inside--
				mu.Unlock()
			}()
		}
		_, _ = w.Write(body) // a client that left shows in its own answer
	}))
	t.Cleanup(server.Close)
	s := harness.Start(t, oneTool(server.URL)+"  step: {backend: up, sequential: true, http: {method: POST, path: /step}}\n")
	var calls []*sidecallv1.ExecuteToolRequest
	var want []string
	for i := range 128 {
		call := callOf(fmt.Sprint("call_", i))
		if i%2 == 0 {
			call.ToolName = "step"
			want = append(want, call.GetArgumentsJson())
		}
		calls = append(calls, call)
	}
	for i, res := range batch(t, s, calls...) {
		if res.GetIsError() || res.GetContent() != calls[i].GetArgumentsJson() {
			t.Errorf("call %d: %s", i, res.GetContent())
		}
	}
	if !slices.Equal(order, want) || most != 1 {
		t.Errorf("the sequential tool ran %d at a time, in the order %v", most, order)
	}
}
