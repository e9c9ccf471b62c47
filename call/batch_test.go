package call_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sidecall/sidecall/call"
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/server"
	"github.com/sidecall/sidecall/testkit/calltest"

	"github.com/sidecall/sidecall/backend"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/tool"
)

func TestABatchHasOneResultPerCallInOrderWhateverOneDoes(t *testing.T) {
	hang := &calltest.Backend{Do: func(ctx context.Context, _ backend.Invocation) (backend.Reply, *tool.Failure) {
		<-ctx.Done()
		return backend.Reply{}, &tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous}
	}}
	panics := &calltest.Backend{Do: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) { panic("a bug") }}
	short := func(r *catalog.Route) { r.Tool.Policy.AttemptTimeout, r.Tool.Policy.Retry.MaxAttempts = 10e6, 1 }
	s := calltest.New(t,
		calltest.NewRoute(t, "works", tool.ReadOnly, calltest.Answers("ok")),
		calltest.NewRoute(t, "errs", tool.ReadOnly, calltest.Fails(calltest.Always, calltest.NotFound)),
		calltest.NewRoute(t, "hangs", tool.ReadOnly, hang, short),
		calltest.NewRoute(t, "panics", tool.ReadOnly, panics))
	batch := &sidecallv1.ExecuteToolsRequest{}
	names := []string{"works", "errs", "hangs", "panics", "no_such_tool", "works"}
	for i, name := range names {
		batch.Calls = append(batch.Calls, calltest.Request(fmt.Sprintf("toolu_%d", i), name))
	}
	batch.Calls = append(batch.Calls, calltest.Request("toolu_0", "works")) // the same id again
	res, err := service(s).ExecuteTools(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	want := []tool.Code{"", tool.CodeNotFound, tool.CodeTimeout, tool.CodeInternal, tool.CodeUnknownTool, "", ""}
	if len(res.GetResults()) != len(want) {
		t.Fatalf("%d results for %d calls", len(res.GetResults()), len(want))
	}
	for i, r := range res.GetResults() {
		calltest.CheckInvariants(t, batch.GetCalls()[i], r)
		if calltest.Code(r) != want[i] {
			t.Errorf("result %d: code %q, want %q", i, calltest.Code(r), want[i])
		}
	}
}

func TestSequentialToolsRunInRequestOrder(t *testing.T) {
	var mu sync.Mutex
	var order []string
	running := 0
	b := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (backend.Reply, *tool.Failure) {
		mu.Lock()
		running++
		if running > 1 {
			t.Error("two sequential calls at the same time")
		}
		order = append(order, in.Parsed["order_id"].(string))
		mu.Unlock()
		defer func() { mu.Lock(); running--; mu.Unlock() }()
		return backend.Reply{Text: []byte("ok")}, nil
	}}
	sequential := func(r *catalog.Route) { r.Tool.Policy.Sequential = true }
	s := calltest.New(t, calltest.NewRoute(t, "step", tool.NonIdempotent, b, sequential), calltest.NewRoute(t, "other", tool.ReadOnly, calltest.Answers("ok")))
	var calls []call.Request
	var want []string
	for i := range 20 {
		name, id := "step", fmt.Sprintf("A-%d", i)
		if i%3 == 0 {
			name = "other"
		} else {
			want = append(want, id)
		}
		req := calltest.Request("toolu_"+id, name)
		req.ArgumentsJson = fmt.Sprintf(`{"order_id":%q}`, id)
		calls = append(calls, call.NewRequest("", req))
	}
	s.ExecuteBatch(t.Context(), calls)
	if !slices.Equal(order, want) {
		t.Errorf("ran in the order %v", order)
	}
}

// service is the front of a sidecar.
func service(s *calltest.Sidecar) *server.Service { return &server.Service{Executor: s.Executor} }
