package call_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/server"
	"github.com/sidecall/sidecall/test/testkit/calltest"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

func TestABatchHasOneResultPerCallInOrderWhateverOneDoes(t *testing.T) {
	hang := &calltest.Backend{Do: func(ctx context.Context, _ backend.Invocation) (tool.Reply, *tool.Failure) {
		<-ctx.Done()
		return tool.Reply{}, &tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous}
	}}
	panics := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) { panic("a bug") }}
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

// The calls of a batch are made at the same time: each of these answers only when
// all of them have been called.
func TestTheCallsOfABatchRunAtTheSameTime(t *testing.T) {
	const calls = 8
	var called sync.WaitGroup
	called.Add(calls)
	b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		called.Done()
		called.Wait()
		return tool.Reply{Text: []byte("ok")}, nil
	}}
	s := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, b))
	s.Limit(func(l *catalog.Limits) { l.BatchParallel = calls })
	var batch []call.Request
	for i := range calls {
		batch = append(batch, call.NewRequest("", calltest.Request(fmt.Sprintf("toolu_%d", i), "get_order")))
	}
	for i, res := range s.ExecuteBatch(t.Context(), batch) {
		if res.GetContent() != "ok" {
			t.Errorf("call %d: %s", i, res.GetContent())
		}
	}
}

func TestSequentialToolsRunInRequestOrder(t *testing.T) {
	var mu sync.Mutex
	var order []string
	running := 0
	b := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		mu.Lock()
		running++
		if running > 1 {
			t.Error("two sequential calls at the same time")
		}
		order = append(order, in.Parsed["order_id"].(string))
		mu.Unlock()
		defer func() { mu.Lock(); running--; mu.Unlock() }()
		return tool.Reply{Text: []byte("ok")}, nil
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

// Of calls of one batch with one id the first in request order is made, and the
// others are answered as any other duplicate of it.
func TestDuplicatesOfOneBatchAreAnsweredAsTheContractSays(t *testing.T) {
	const first, same, other = `{"order_id":"A-1"}`, ` { "order_id" : "A-1" } `, `{"order_id":"A-2"}`
	for _, sequential := range []bool{false, true} {
		for _, parallel := range []int{1, 16} {
			t.Run(fmt.Sprintf("sequential %v, %d at a time", sequential, parallel), func(t *testing.T) {
				echo := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
					return tool.Reply{Text: []byte("did " + in.Parsed["order_id"].(string))}, nil
				}}
				s := calltest.New(t,
					calltest.NewRoute(t, "pay", tool.NonIdempotent, echo, func(r *catalog.Route) { r.Tool.Policy.Sequential = sequential }),
					calltest.NewRoute(t, "look", tool.ReadOnly, echo))
				s.Limit(func(l *catalog.Limits) { l.BatchParallel = parallel })
				for round := range 20 {
					batch := &sidecallv1.ExecuteToolsRequest{}
					add := func(id, name, args string) {
						req := calltest.Request(fmt.Sprintf("%s_%d", id, round), name)
						req.ArgumentsJson = args
						batch.Calls = append(batch.Calls, req)
					}
					add("a", "pay", first)
					add("a", "pay", other)
					add("b", "pay", first)
					add("a", "pay", same)
					add("c", "look", first)
					add("c", "pay", first)
					echo.Calls.Store(0)
					res, err := service(s).ExecuteTools(t.Context(), batch)
					if err != nil {
						t.Fatal(err)
					}
					for i, want := range []tool.Code{"", tool.CodeIDReused, "", "", "", tool.CodeIDReused} {
						got := res.GetResults()[i]
						calltest.CheckInvariants(t, batch.GetCalls()[i], got)
						if calltest.Code(got) != want || want == "" && got.GetContent() != "did A-1" || got.GetReplayed() != (i == 3) {
							t.Errorf("result %d: %v", i, got)
						}
					}
					if n := echo.Calls.Load(); n != 3 {
						t.Errorf("%d executions of 3 calls", n)
					}
				}
			})
		}
	}
}

// service is the front of a sidecar.
func service(s *calltest.Sidecar) *server.Service { return &server.Service{Executor: s.Executor} }
