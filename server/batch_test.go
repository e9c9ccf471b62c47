package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/backend"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/tool"
)

func TestABatchHasOneResultPerCallInOrderWhateverOneDoes(t *testing.T) {
	hang := &fakeBackend{do: func(ctx context.Context, _ backend.Invocation) (backend.Reply, *tool.Failure) {
		<-ctx.Done()
		return backend.Reply{}, &tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous}
	}}
	panics := &fakeBackend{do: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) { panic("a bug") }}
	short := func(r *Route) { r.Tool.Policy.AttemptTimeout, r.Tool.Policy.Retry.MaxAttempts = 10e6, 1 }
	s := newSidecar(t,
		newRoute(t, "works", tool.ReadOnly, answers("ok")),
		newRoute(t, "errs", tool.ReadOnly, fails(always, notFound)),
		newRoute(t, "hangs", tool.ReadOnly, hang, short),
		newRoute(t, "panics", tool.ReadOnly, panics))
	batch := &sidecallv1.ExecuteToolsRequest{}
	names := []string{"works", "errs", "hangs", "panics", "no_such_tool", "works"}
	for i, name := range names {
		batch.Calls = append(batch.Calls, request(fmt.Sprintf("toolu_%d", i), name))
	}
	batch.Calls = append(batch.Calls, request("toolu_0", "works")) // the same id again
	res, err := s.service.ExecuteTools(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	want := []tool.Code{"", tool.CodeNotFound, tool.CodeTimeout, tool.CodeInternal, tool.CodeUnknownTool, "", ""}
	if len(res.GetResults()) != len(want) {
		t.Fatalf("%d results for %d calls", len(res.GetResults()), len(want))
	}
	for i, r := range res.GetResults() {
		checkInvariants(t, batch.GetCalls()[i], r)
		if code(r) != want[i] {
			t.Errorf("result %d: code %q, want %q", i, code(r), want[i])
		}
	}
}

func TestSequentialToolsRunInRequestOrder(t *testing.T) {
	var mu sync.Mutex
	var order []string
	running := 0
	b := &fakeBackend{do: func(_ context.Context, in backend.Invocation) (backend.Reply, *tool.Failure) {
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
	sequential := func(r *Route) { r.Tool.Policy.Sequential = true }
	s := newSidecar(t, newRoute(t, "step", tool.NonIdempotent, b, sequential), newRoute(t, "other", tool.ReadOnly, answers("ok")))
	var calls []*sidecallv1.ExecuteToolRequest
	var want []string
	for i := range 20 {
		name, id := "step", fmt.Sprintf("A-%d", i)
		if i%3 == 0 {
			name = "other"
		} else {
			want = append(want, id)
		}
		req := request("toolu_"+id, name)
		req.ArgumentsJson = fmt.Sprintf(`{"order_id":%q}`, id)
		calls = append(calls, req)
	}
	s.ExecuteBatch(t.Context(), "", calls)
	if !slices.Equal(order, want) {
		t.Errorf("ran in the order %v", order)
	}
}

func TestWhatOnlyTheProgramCanCorrectIsAStatus(t *testing.T) {
	s := newSidecar(t, newRoute(t, "works", tool.ReadOnly, answers("ok")))
	for name, req := range map[string]*sidecallv1.ExecuteToolRequest{
		"tool_use_id": {ToolName: "works"},
		"tool_name":   {ToolUseId: "toolu_1"},
		"turn_id":     {ToolUseId: "toolu_1", ToolName: "works", TurnId: strings.Repeat("x", 300)},
		"labels":      {ToolUseId: "toolu_1", ToolName: "works", Labels: map[string]string{"a": strings.Repeat("x", 300)}},
	} {
		_, err := s.service.ExecuteTool(t.Context(), req)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		_, err = s.service.ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{
			Calls: []*sidecallv1.ExecuteToolRequest{request("toolu_0", "works"), req},
		})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "calls[1]."+name) {
			t.Errorf("in a batch, %s: %v", name, err)
		}
	}
	if _, err := s.service.ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{
		Calls: make([]*sidecallv1.ExecuteToolRequest, 129),
	}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a batch that is too large: %v", err)
	}
}

func TestDrainingHandsBackWhatHasNotStarted(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := &fakeBackend{do: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
		close(started)
		<-release
		return backend.Reply{Text: []byte("ok")}, nil
	}}
	s := newSidecar(t, newRoute(t, "refund", tool.NonIdempotent, b))
	first := make(chan *sidecallv1.ExecuteToolResponse)
	go func() {
		res, err := s.service.ExecuteTool(context.Background(), request("toolu_1", "refund"))
		if err != nil {
			t.Error(err)
		}
		first <- res
	}()
	<-started
	expired, cancel := context.WithCancel(context.Background())
	cancel()
	if left := s.service.Drain.Start(expired); left != 1 {
		t.Errorf("%d calls in flight, want 1", left)
	}
	if _, err := s.service.ExecuteTool(t.Context(), request("toolu_2", "refund")); status.Code(err) != codes.Unavailable {
		t.Errorf("a new call while draining: %v", err)
	}
	close(release)
	if res := <-first; res.GetContent() != "ok" {
		t.Errorf("the call in flight: %s", res.GetContent())
	}
	if left := s.service.Drain.Start(t.Context()); left != 0 {
		t.Errorf("%d calls left", left)
	}
}
