package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/backend"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/testkit/calltest"
	"github.com/sidecall/sidecall/tool"
)

func service(s *calltest.Sidecar) *Service { return &Service{Executor: s.Executor} }

func TestWhatOnlyTheProgramCanCorrectIsAStatus(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "works", tool.ReadOnly, calltest.Answers("ok")))
	for name, req := range map[string]*sidecallv1.ExecuteToolRequest{
		"tool_use_id": {ToolName: "works"},
		"tool_name":   {ToolUseId: "toolu_1"},
		"turn_id":     {ToolUseId: "toolu_1", ToolName: "works", TurnId: strings.Repeat("x", 300)},
		"labels":      {ToolUseId: "toolu_1", ToolName: "works", Labels: map[string]string{"a": strings.Repeat("x", 300)}},
	} {
		_, err := service(s).ExecuteTool(t.Context(), req)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		_, err = service(s).ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{
			Calls: []*sidecallv1.ExecuteToolRequest{calltest.Request("toolu_0", "works"), req},
		})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "calls[1]."+name) {
			t.Errorf("in a batch, %s: %v", name, err)
		}
	}
	if _, err := service(s).ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{
		Calls: make([]*sidecallv1.ExecuteToolRequest, 129),
	}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a batch that is too large: %v", err)
	}
}

// What is said first of a request with several faults does not depend on chance.
func TestTheFirstFaultIsAlwaysTheSame(t *testing.T) {
	long := strings.Repeat("x", 300)
	req := &sidecallv1.ExecuteToolRequest{ToolUseId: "toolu_1", ConversationId: long, TurnId: long, PromptId: long}
	for range 50 {
		if err := checkRequest(req); !strings.Contains(err.Error(), "conversation_id:") {
			t.Fatal(err)
		}
	}
}

// handled passes a request through the interceptor of a drain, as gRPC does.
func handled(d *Drain, s *Service, method string, req *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
	res, err := d.intercept(context.Background(), req, &grpc.UnaryServerInfo{FullMethod: method},
		func(ctx context.Context, req any) (any, error) {
			return s.ExecuteTool(ctx, req.(*sidecallv1.ExecuteToolRequest))
		})
	if err != nil {
		return nil, err
	}
	return res.(*sidecallv1.ExecuteToolResponse), nil
}

func TestDrainingHandsBackWhatHasNotStarted(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (backend.Reply, *tool.Failure) {
		close(started)
		<-release
		return backend.Reply{Text: []byte("ok")}, nil
	}}
	s, drain := service(calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))), NewDrain()
	const method = sidecallv1.ToolService_ExecuteTool_FullMethodName
	first := make(chan *sidecallv1.ExecuteToolResponse)
	go func() {
		res, err := handled(drain, s, method, calltest.Request("toolu_1", "refund"))
		if err != nil {
			t.Error(err)
		}
		first <- res
	}()
	<-started
	expired, cancel := context.WithCancel(context.Background())
	cancel()
	if left := drain.Start(expired); left != 1 {
		t.Errorf("%d calls in flight, want 1", left)
	}
	if _, err := handled(drain, s, method, calltest.Request("toolu_2", "refund")); status.Code(err) != codes.Unavailable {
		t.Errorf("a new call while draining: %v", err)
	}
	close(release)
	if res := <-first; res.GetContent() != "ok" {
		t.Errorf("the call in flight: %s", res.GetContent())
	}
	if left := drain.Start(t.Context()); left != 0 {
		t.Errorf("%d calls left", left)
	}
}

// Every method of the contract either starts something, and is handed back while
// the sidecar drains, or only looks. A new one has to be sorted.
func TestEveryMethodIsSorted(t *testing.T) {
	looks := map[string]bool{"ListTools": true, "GetExecution": true, "ReadOutput": true}
	for _, service := range []grpc.ServiceDesc{sidecallv1.ToolService_ServiceDesc, sidecallv1.OperatorService_ServiceDesc} {
		for _, method := range service.Methods {
			full := fmt.Sprintf("/%s/%s", service.ServiceName, method.MethodName)
			if starting[full] == looks[method.MethodName] {
				t.Errorf("%s: does it start something?", full)
			}
		}
	}
}
