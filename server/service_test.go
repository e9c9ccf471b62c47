package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

func service(s *calltest.Sidecar) *Service { return &Service{Executor: s.Executor} }

// Only a call that cannot be told from others is a status: the program forgot
// to say which one it is. In a batch it costs its own result.
func TestACallThatSaysNotWhichItIsIsAStatus(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "works", tool.ReadOnly, calltest.Answers("ok")))
	_, err := service(s).ExecuteTool(t.Context(), &sidecallv1.ExecuteToolRequest{ToolName: "works", ConversationId: "c1"})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "tool_use_id") {
		t.Errorf("no tool_use_id: %v", err)
	}
	if _, err := service(s).ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{
		Calls: make([]*sidecallv1.ExecuteToolRequest, 129),
	}); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "limits.max_batch") {
		t.Errorf("a batch that is too large: %v", err)
	}
}

// impossible are calls that cannot be made, each with the field and the code of
// its result, or what the field begins with.
var impossible = map[string]struct {
	change func(*sidecallv1.ExecuteToolRequest)
	field  string
	code   tool.Code
}{
	"an empty tool name":     {func(r *sidecallv1.ExecuteToolRequest) { r.ToolName = "" }, "tool_name", tool.CodeUnknownTool},
	"an overlong tool name":  {func(r *sidecallv1.ExecuteToolRequest) { r.ToolName = strings.Repeat("x", 3<<20) }, "tool_name", tool.CodeUnknownTool},
	"an impossible name":     {func(r *sidecallv1.ExecuteToolRequest) { r.ToolName = "../\x00\x1b[31m\u202e" }, "tool_name", tool.CodeUnknownTool},
	"an overlong id":         {func(r *sidecallv1.ExecuteToolRequest) { r.ToolUseId = strings.Repeat("x", 300) }, "tool_use_id", tool.CodeInvalidArgs},
	"an overlong turn":       {func(r *sidecallv1.ExecuteToolRequest) { r.TurnId = strings.Repeat("x", 300) }, "turn_id", tool.CodeInvalidArgs},
	"an overlong prompt":     {func(r *sidecallv1.ExecuteToolRequest) { r.PromptId = strings.Repeat("x", 300) }, "prompt_id", tool.CodeInvalidArgs},
	"an overlong label":      {func(r *sidecallv1.ExecuteToolRequest) { r.Labels = map[string]string{"a": strings.Repeat("x", 300)} }, "labels", tool.CodeInvalidArgs},
	"too little output":      {func(r *sidecallv1.ExecuteToolRequest) { r.MaxOutputChars = -1 }, "max_output_chars", tool.CodeInvalidArgs},
	"a timeout in the past":  {func(r *sidecallv1.ExecuteToolRequest) { r.Timeout = durationpb.New(-time.Second) }, "timeout", tool.CodeInvalidArgs},
	"an unknown profile":     {func(r *sidecallv1.ExecuteToolRequest) { r.Profile = strings.Repeat("x", 3<<20) }, "", tool.CodePermissionDenied},
	"arguments of 3 MiB":     {func(r *sidecallv1.ExecuteToolRequest) { r.ArgumentsJson = `{"order_id":` + strings.Repeat("[", 3<<20) }, "order_id[0][0]", tool.CodeInvalidArgs},
	"one argument of 3 MiB":  {func(r *sidecallv1.ExecuteToolRequest) { r.ArgumentsJson = `{"x":"` + strings.Repeat("x", 3<<20) + `"}` }, "order_id", tool.CodeInvalidArgs},
	"a name nearly a tool's": {func(r *sidecallv1.ExecuteToolRequest) { r.ToolName = "work" }, "tool_name", tool.CodeUnknownTool},
}

func TestWhatAModelMakesUpIsAResult(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "works", tool.ReadOnly, calltest.Answers("ok")))
	check := func(t *testing.T, res *sidecallv1.ExecuteToolResponse, req *sidecallv1.ExecuteToolRequest, field string, code tool.Code) {
		t.Helper()
		calltest.CheckInvariants(t, req, res)
		if calltest.Code(res) != code || !strings.HasPrefix(res.GetError().GetField(), field) {
			t.Errorf("code %q, field %q: %.300s", calltest.Code(res), res.GetError().GetField(), res.GetContent())
		}
		if size := proto.Size(res); size > 16<<10 {
			t.Errorf("a result of %d bytes", size)
		}
	}
	for name, c := range impossible {
		t.Run(name, func(t *testing.T) {
			req := calltest.Request("toolu_1", "works")
			c.change(req)
			single, err := service(s).ExecuteTool(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			check(t, single, req, c.field, c.code)
			calls := []*sidecallv1.ExecuteToolRequest{calltest.Request("before", "works"), req, calltest.Request("after", "works")}
			batch, err := service(s).ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{Calls: calls})
			if err != nil || len(batch.GetResults()) != 3 {
				t.Fatalf("%d results, %v", len(batch.GetResults()), err)
			}
			check(t, batch.GetResults()[1], req, c.field, c.code)
			for _, i := range []int{0, 2} {
				calltest.CheckInvariants(t, calls[i], batch.GetResults()[i])
				if batch.GetResults()[i].GetContent() != "ok" {
					t.Errorf("its neighbour %d got %s", i, batch.GetResults()[i].GetContent())
				}
			}
		})
	}
}

// A client with default settings receives every response: 4 MiB at the most.
func TestAClientWithDefaultSettingsReceivesEveryResult(t *testing.T) {
	image := bytes.Repeat([]byte("pixels"), 2_900_000/6)
	draws := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return tool.Reply{Text: []byte("see"), Blocks: []tool.Block{{Type: "image", MIMEType: "image/png", Data: image}}}, nil
	}}
	route := calltest.NewRoute(t, "draw", tool.NonIdempotent, draws)
	route.Tool.Policy.AttemptTimeout, route.Tool.Policy.Deadline = time.Minute, time.Minute // it is much, for a busy machine
	client := dial(t, calltest.New(t, route))
	batch := &sidecallv1.ExecuteToolsRequest{}
	for i := range 10 {
		batch.Calls = append(batch.Calls, calltest.Request(fmt.Sprint("toolu_", i), "draw"))
	}
	for range 2 { // sent again it is received as well
		res, err := client.ExecuteTools(t.Context(), batch)
		if err != nil || len(res.GetResults()) != 10 {
			t.Fatalf("%d results, %v", len(res.GetResults()), err)
		}
		for i, one := range res.GetResults() {
			if len(one.GetBlocks()) == 0 {
				t.Fatalf("call %d: %v", i, one.GetError())
			}
			block := one.GetBlocks()[0]
			data := block.GetData()
			for len(data) < len(image) && block.GetOutputRef() != "" {
				page, err := client.ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{OutputRef: block.GetOutputRef(), ConversationId: "c1", Offset: int64(len(data)), Limit: 1 << 30})
				if err != nil || page.GetMediaType() != "image/png" {
					t.Fatal(page.GetMediaType(), err)
				}
				data = append(data, page.GetData()...)
			}
			if !bytes.Equal(data, image) {
				t.Errorf("image %d: %d bytes of %d", i, len(data), len(image))
			}
		}
	}
	if n := draws.Calls.Load(); n != 10 {
		t.Errorf("%d executions of 10 calls", n)
	}
}

// dial is a client with default settings of a sidecar behind its real front.
func dial(t *testing.T, s *calltest.Sidecar) sidecallv1.ToolServiceClient {
	t.Helper()
	return dialWith(t, s, GRPCOptions{MaxRequestBytes: 64 << 10, MaxStreams: 100, Bytes: limit.NewBytes(64 << 20)})
}

type testClient struct {
	sidecallv1.ToolServiceClient

	conn *grpc.ClientConn
}

func dialWith(t *testing.T, s *calltest.Sidecar, options GRPCOptions) testClient {
	t.Helper()
	return dialTo(t, serve(t, NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), options).Agents()))
}

// serve runs a server until the end of the test and returns its address.
func serve(t *testing.T, front *grpc.Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- front.Serve(listener) }()
	t.Cleanup(func() {
		front.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func dialTo(t *testing.T, addr string, options ...grpc.DialOption) testClient {
	t.Helper()
	conn, err := grpc.NewClient(addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && status.Code(err) != codes.Canceled { // a test may have closed it
			t.Error(err)
		}
	})
	return testClient{sidecallv1.NewToolServiceClient(conn), conn}
}

// Which setting refuses a request that is too large is said.
func TestARequestThatIsTooLargeNamesTheSetting(t *testing.T) {
	client := dial(t, calltest.New(t))
	req := calltest.Request("toolu_1", "works")
	req.ArgumentsJson = strings.Repeat(" ", 64<<10)
	var trailer metadata.MD
	_, err := client.ExecuteTool(t.Context(), req, grpc.Trailer(&trailer))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "limits.max_request_bytes") {
		t.Error(err)
	}
	if most := trailer.Get("sidecall-max-request-bytes"); len(most) != 1 || !strings.Contains(err.Error(), " takes "+most[0]+" at most") {
		t.Errorf("a client is told %v, a person %v", most, err)
	}
	req.ArgumentsJson = strings.Repeat(" ", 63<<10)
	if _, err := client.ExecuteTool(t.Context(), req); err != nil {
		t.Errorf("one that is not: %v", err)
	}
	req.ArgumentsJson = strings.Repeat(" ", 2<<20)
	if _, err = client.ExecuteTool(t.Context(), req, grpc.Trailer(&trailer)); status.Code(err) != codes.ResourceExhausted || len(trailer.Get("sidecall-max-request-bytes")) != 1 {
		t.Errorf("one that is much too large: %v, %v", err, trailer)
	}
}

// Ids such as call_0 of two agents must not meet in one conversation without a
// name: the second agent would be told that its refund has happened.
func TestIdentityHasToBeSaid(t *testing.T) {
	for name, c := range map[string]struct {
		require []string
		lacks   string // empty: the call is made
		change  func(*sidecallv1.ExecuteToolRequest)
	}{
		"no conversation":          {[]string{"conversation_id"}, "conversation_id", func(r *sidecallv1.ExecuteToolRequest) { r.ConversationId = "" }},
		"a conversation":           {[]string{"conversation_id"}, "", func(r *sidecallv1.ExecuteToolRequest) { r.TurnId = "" }},
		"no turn":                  {[]string{"conversation_id", "turn_id"}, "turn_id", func(r *sidecallv1.ExecuteToolRequest) { r.TurnId = "" }},
		"no prompt":                {[]string{"prompt_id"}, "prompt_id", func(*sidecallv1.ExecuteToolRequest) {}},
		"a prompt":                 {[]string{"prompt_id"}, "", func(r *sidecallv1.ExecuteToolRequest) { r.PromptId, r.ConversationId = "p1", "" }},
		"relaxed":                  {nil, "", func(r *sidecallv1.ExecuteToolRequest) { r.ConversationId, r.TurnId = "", "" }},
		"only validated":           {[]string{"conversation_id"}, "conversation_id", func(r *sidecallv1.ExecuteToolRequest) { r.ConversationId, r.ValidateOnly = "", true }},
		"made up, and no identity": {[]string{"conversation_id"}, "conversation_id", func(r *sidecallv1.ExecuteToolRequest) { r.ConversationId, r.ToolName = "", "made_up" }},
	} {
		t.Run(name, func(t *testing.T) {
			pays := calltest.Answers("paid")
			s := calltest.New(t, calltest.NewRoute(t, "pay", tool.NonIdempotent, pays))
			s.Limit(func(l *catalog.Limits) { l.RequireIDs = c.require })
			req, other := calltest.Request("call_0", "pay"), calltest.Request("call_1", "pay")
			c.change(req)
			other.PromptId = "p1"
			single, err := service(s).ExecuteTool(t.Context(), req)
			switch {
			case c.lacks == "":
				if err != nil || single.GetIsError() {
					t.Errorf("%v, %v", single, err)
				}
			case status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.lacks+": is required by the setting identity.require: send"):
				t.Errorf("%v, %v", single, err)
			}
			batch, err := service(s).ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{Calls: []*sidecallv1.ExecuteToolRequest{req, other}})
			if err != nil {
				t.Fatal(err)
			}
			first, second := batch.GetResults()[0], batch.GetResults()[1]
			calltest.CheckInvariants(t, req, first)
			if first.GetError().GetField() != c.lacks || first.GetIsError() != (c.lacks != "") || second.GetContent() != "paid" {
				t.Errorf("in a batch: %v and %v", first, second)
			}
			if c.lacks != "" && (calltest.Code(first) != tool.CodeInvalidArgs || !strings.Contains(first.GetContent(), "identity.require") || pays.Calls.Load() != 1) {
				t.Errorf("in a batch: %v, %d executions", first, pays.Calls.Load())
			}
		})
	}
}

// A call without an id is no call to refuse the others for.
func TestACallWithoutAnIDCostsOneResultOfABatch(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "works", tool.ReadOnly, calltest.Answers("ok")))
	calls := []*sidecallv1.ExecuteToolRequest{calltest.Request("", "works"), calltest.Request("toolu_1", "works"), calltest.Request("", "works")}
	batch, err := service(s).ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{Calls: calls})
	if err != nil {
		t.Fatal(err)
	}
	for i, res := range batch.GetResults() {
		calltest.CheckInvariants(t, calls[i], res)
	}
	if got := batch.GetResults(); calltest.Code(got[0]) != tool.CodeInvalidArgs || got[0].GetError().GetField() != "tool_use_id" ||
		got[1].GetContent() != "ok" || calltest.Code(got[2]) != tool.CodeInvalidArgs {
		t.Errorf("%v", got)
	}
}

// What is said first of a request with several faults does not depend on chance.
func TestTheFirstFaultIsAlwaysTheSame(t *testing.T) {
	s := calltest.New(t)
	long := strings.Repeat("x", 300)
	req := &sidecallv1.ExecuteToolRequest{ToolUseId: "toolu_1", ConversationId: long, TurnId: long, PromptId: long}
	for range 50 {
		res, err := service(s).ExecuteTool(t.Context(), req)
		if err != nil || res.GetError().GetField() != "conversation_id" {
			t.Fatal(res, err)
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
	b := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		close(started)
		<-release
		return tool.Reply{Text: []byte("ok")}, nil
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
	looks := map[string]bool{
		"ReadMessage": true, "ListTools": true, "FindExecutions": true, "PlanUndo": true, "ShowConversation": true, "AuditConversations": true, "VerifyReceipts": true, "GetOverview": true, "GetInstructions": true, "GetExecution": true, "ReadOutput": true,
		// What a loop says of itself it may say until the end: nothing is run for it.
		"StartPrompt": true, "EndPrompt": true, "AppendMessages": true, "LoadConversation": true, "ResumeConversation": true, "ListConversations": true,
	}
	for _, service := range []grpc.ServiceDesc{sidecallv1.ToolService_ServiceDesc, sidecallv1.OperatorService_ServiceDesc, sidecallv1.ConversationService_ServiceDesc} {
		for _, method := range service.Methods {
			full := fmt.Sprintf("/%s/%s", service.ServiceName, method.MethodName)
			if starting[full] == looks[method.MethodName] {
				t.Errorf("%s: does it start something?", full)
			}
		}
	}
}

// A client sees the corrected call, and can send it as it is.
func TestAClientSeesTheCorrectedCall(t *testing.T) {
	works := calltest.Answers("ok")
	client := dial(t, calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, works)))
	req := calltest.Request("toolu_1", "get_ordr")
	req.ArgumentsJson = `{"ordr_id":"A-1","cents":"5"}`
	for _, code := range []tool.Code{tool.CodeUnknownTool, tool.CodeInvalidArgs, ""} {
		res, err := client.ExecuteTool(t.Context(), req)
		if err != nil || calltest.Code(res) != code {
			t.Fatalf("%v, %v, want %q", res, err, code)
		}
		if req = calltest.Request("toolu_2", "get_order"); code == tool.CodeUnknownTool {
			req.ArgumentsJson = `{"order_id":["A-1"],"cents":5}`
			if got := res.GetRecovery(); got.GetSuggestedToolName() != "get_order" || got.GetSuggestedArgumentsJson() != `{"cents":5,"order_id":"A-1"}` {
				t.Errorf("of the wrong name: %v", got)
			}
		} else if code == tool.CodeInvalidArgs {
			req.ArgumentsJson = res.GetRecovery().GetSuggestedArgumentsJson()
		}
	}
	if n := works.Calls.Load(); n != 1 {
		t.Errorf("%d executions", n)
	}
}

// What holds a drain that has come to its end already ends it no second time.
func TestADrainEndsOnce(t *testing.T) {
	drain := NewDrain()
	if left := drain.Start(t.Context()); left != 0 {
		t.Fatalf("%d in flight", left)
	}
	release := drain.Hold()
	release()
	if left := drain.Start(t.Context()); left != 0 {
		t.Errorf("%d in flight", left)
	}
}
