package sidecall_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// fake is a sidecar that answers as it is told to.
type fake struct {
	reading

	// message hears of each message; nil does not.
	message func(*sidecallv1.RunMessageRequest)
	fits    func([]*sidecallv1.ExecuteToolRequest) bool // nil: everything does
	tool    func(*sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error)
	tools   func(*sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error)
	list    func(*sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error)
}

// refuse refuses requests as a sidecar does that takes only so much.
func (f fake) refuse(ctx context.Context, calls ...*sidecallv1.ExecuteToolRequest) error {
	if f.fits == nil || f.fits(calls) {
		return nil
	}
	if err := grpc.SetTrailer(ctx, metadata.Pairs("sidecall-max-request-bytes", "4194304")); err != nil {
		return err
	}
	return status.Error(codes.ResourceExhausted, "the request has too many bytes")
}

func (f fake) ExecuteTool(ctx context.Context, r *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
	if err := f.refuse(ctx, r); err != nil {
		return nil, err
	}
	return f.tool(r)
}

func (f fake) ExecuteTools(ctx context.Context, r *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
	if err := f.refuse(ctx, r.GetCalls()...); err != nil {
		return nil, err
	}
	return f.tools(r)
}

func (f fake) RunMessage(ctx context.Context, r *sidecallv1.RunMessageRequest) (*sidecallv1.RunMessageResponse, error) {
	if f.message != nil {
		f.message(r)
		return &sidecallv1.RunMessageResponse{}, nil
	}
	return runs(f.ExecuteTools).message(ctx, r)
}

func (f fake) ListTools(_ context.Context, r *sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error) {
	return f.list(r)
}

// serve lets the fake answer on a listener for as long as the test runs.
func serve(t testing.TB, listener net.Listener, f fake) {
	t.Helper()
	server := grpc.NewServer()
	sidecallv1.RegisterToolServiceServer(server, f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func dial(t testing.TB, target string, opts ...grpc.DialOption) *sidecall.Client {
	t.Helper()
	client, err := sidecall.Dial(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// connect returns a client of a fake in this process.
func connect(t testing.TB, f fake) *sidecall.Client {
	t.Helper()
	pipe := bufconn.Listen(1 << 16)
	serve(t, pipe, f)
	return dial(t, "passthrough:///fake", grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
}

// A client that is closed says so: of what was under way, of what comes later, and of its work.
func TestAClientThatIsClosed(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	client := connect(t, fake{tool: func(*sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
		close(asked)
		<-goOn
		return nil, status.Error(codes.Internal, "too late")
	}})
	call := sidecall.Call{ToolUseID: "a", ToolName: "x", ConversationID: "c"}
	under := make(chan error, 1)
	go func() {
		_, err := client.ExecuteTool(t.Context(), call)
		under <- err
	}()
	<-asked
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-under; !errors.Is(err, sidecall.ErrClosed) {
		t.Errorf("what was under way: %v", err)
	}
	close(goOn)
	var w sidecall.Worker
	if err := sidecall.Add(&w, sidecall.Function{Name: "x"}, func(context.Context, struct{}) (string, error) { return "", nil }); err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func() error{
		"a call":         func() error { _, err := client.ExecuteTool(t.Context(), call); return err },
		"the tools":      func() error { _, err := client.Tools(t.Context(), sidecall.Anthropic, ""); return err },
		"a conversation": func() error { _, err := client.Conversation(t.Context(), "c", sidecall.Anthropic); return err },
		"work":           func() error { return client.Work(t.Context(), &w) },
	} {
		if err := ask(); !errors.Is(err, sidecall.ErrClosed) || err.Error() != sidecall.ErrClosed.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := client.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

func TestEveryPartOfACallArrives(t *testing.T) {
	var got *sidecallv1.ExecuteToolRequest
	client := connect(t, fake{tool: func(r *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
		got = r
		return &sidecallv1.ExecuteToolResponse{ToolUseId: r.GetToolUseId(), Content: "42", Outcome: sidecallv1.Outcome_OUTCOME_OK}, nil
	}})

	result, err := client.ExecuteTool(t.Context(), sidecall.Call{
		ToolUseID: "toolu_1", ToolName: "answer", Arguments: `{"q": 1.0}`,
		ConversationID: "c", TurnID: "t", MessageID: "m", PromptID: "p", Profile: "research",
		ValidateOnly: true, Timeout: 1500 * time.Millisecond, MaxOutputChars: 100, TokensUsed: 7,
		Labels: map[string]string{"team": "shop"}, AllowDuplicateEffect: true, HoldOnly: true,
	})
	if err != nil || result.GetContent() != "42" {
		t.Fatalf("result %v, error %v", result, err)
	}
	want := &sidecallv1.ExecuteToolRequest{
		ToolUseId: "toolu_1", ToolName: "answer", ArgumentsJson: `{"q": 1.0}`,
		ConversationId: "c", TurnId: "t", MessageId: "m", PromptId: "p", Profile: "research",
		ValidateOnly: true, Timeout: durationpb.New(1500 * time.Millisecond), MaxOutputChars: 100, TokensUsed: 7,
		Labels: map[string]string{"team": "shop"}, AllowDuplicateEffect: true, HoldOnly: true,
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestACallThatSaysLittleSendsLittle(t *testing.T) {
	client := connect(t, fake{tool: func(r *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
		if want := (&sidecallv1.ExecuteToolRequest{ToolUseId: "1", ToolName: "now", ConversationId: "c"}); !proto.Equal(want, r) {
			t.Errorf("sent %v", r)
		}
		return &sidecallv1.ExecuteToolResponse{}, nil
	}})
	if _, err := client.ExecuteTool(t.Context(), sidecall.Call{ToolUseID: "1", ToolName: "now", ConversationID: "c"}); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedToolIsAResultAndNoError(t *testing.T) {
	client := connect(t, fake{tool: func(r *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
		return &sidecallv1.ExecuteToolResponse{
			ToolUseId: r.GetToolUseId(), Outcome: sidecallv1.Outcome_OUTCOME_ERROR, IsError: true,
			Error: &sidecallv1.ToolError{Code: "NOT_FOUND"},
		}, nil
	}})
	result, err := client.ExecuteTool(t.Context(), sidecall.Call{ToolUseID: "1", ToolName: "get_order", ConversationID: "c"})
	if err != nil || !result.GetIsError() || result.GetError().GetCode() != "NOT_FOUND" {
		t.Errorf("result %v, error %v", result, err)
	}
}

func TestNothingIsSentTwice(t *testing.T) {
	var requests atomic.Int32
	client := connect(t, fake{tool: func(*sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
		requests.Add(1)
		return nil, status.Error(codes.Unavailable, "draining")
	}})
	_, err := client.ExecuteTool(t.Context(), sidecall.Call{ToolUseID: "1", ToolName: "refund", ConversationID: "c"})
	if status.Code(err) != codes.Unavailable || requests.Load() != 1 {
		t.Errorf("%d requests, error %v", requests.Load(), err)
	}
}

func TestABatch(t *testing.T) {
	result := func(ids ...string) *sidecallv1.ExecuteToolsResponse {
		response := &sidecallv1.ExecuteToolsResponse{}
		for _, id := range ids {
			response.Results = append(response.Results, &sidecallv1.ExecuteToolResponse{ToolUseId: id})
		}
		return response
	}
	tests := map[string]struct {
		response *sidecallv1.ExecuteToolsResponse
		err      error
		broken   bool
		code     codes.Code
	}{
		"one result per call, in order": {response: result("a", "b")},
		"a result is missing":           {response: result("a"), broken: true},
		"a result too many":             {response: result("a", "b", "b"), broken: true},
		"another order":                 {response: result("b", "a"), broken: true},
		"refused as a whole":            {err: status.Error(codes.ResourceExhausted, "too large"), code: codes.ResourceExhausted},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := connect(t, fake{tools: func(r *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
				if len(r.GetCalls()) != 2 || r.GetCalls()[1].GetToolName() != "second" {
					t.Errorf("sent %v", r)
				}
				return test.response, test.err
			}})
			results, err := client.ExecuteTools(t.Context(), sidecall.Call{ToolUseID: "a", ToolName: "first", ConversationID: "c"}, sidecall.Call{ToolUseID: "b", ToolName: "second", ConversationID: "c"})
			switch {
			case errors.Is(err, sidecall.ErrBrokenAnswer) != test.broken:
				t.Errorf("error %v", err)
			case test.err != nil && status.Code(err) != test.code:
				t.Errorf("error %v", err)
			case err == nil && (len(results) != 2 || results[0].GetToolUseId() != "a"):
				t.Errorf("results %v", results)
			case err != nil && results != nil:
				t.Errorf("results %v beside the error %v", results, err)
			}
		})
	}
}

// More calls than a request may have are several requests, one after the other.
func TestMoreCallsThanABatchHas(t *testing.T) {
	var sizes []int
	client := connect(t, fake{tools: func(r *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
		sizes = append(sizes, len(r.GetCalls()))
		return ran(r)
	}})
	calls := make([]sidecall.Call, 129)
	for i := range calls {
		calls[i] = sidecall.Call{ToolUseID: strconv.Itoa(i), ToolName: "f", ConversationID: "c"}
	}
	results, err := client.ExecuteTools(t.Context(), calls...)
	if err != nil || len(results) != 129 || results[128].GetToolUseId() != "128" || !slices.Equal(sizes, []int{128, 1}) {
		t.Errorf("%d results of requests of %v calls, %v", len(results), sizes, err)
	}
}

func TestATurnWithoutCallsAsksNobody(t *testing.T) {
	client := dial(t, "tcp://127.0.0.1:1")
	if results, err := client.ExecuteTools(t.Context()); err != nil || results != nil {
		t.Errorf("results %v, error %v", results, err)
	}
}

func TestAResultMayBeLarge(t *testing.T) {
	large := strings.Repeat("x", 8<<20)
	client := connect(t, fake{tool: func(*sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
		return &sidecallv1.ExecuteToolResponse{Content: large}, nil
	}})
	result, err := client.ExecuteTool(t.Context(), sidecall.Call{ToolUseID: "1", ToolName: "dump", ConversationID: "c"})
	if err != nil || result.GetContent() != large {
		t.Errorf("%d characters, error %v", len(result.GetContent()), err)
	}
}

func TestTools(t *testing.T) {
	client := connect(t, fake{list: func(r *sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error) {
		if r.GetProfile() == "nobody" {
			return nil, status.Error(codes.InvalidArgument, "no such profile")
		}
		return &sidecallv1.ListToolsResponse{Tools: []*sidecallv1.Tool{{Name: r.GetProfile() + "_tool"}}}, nil
	}})
	tools, err := client.ListTools(t.Context(), "code")
	if err != nil || len(tools) != 1 || tools[0].GetName() != "code_tool" {
		t.Errorf("tools %v, error %v", tools, err)
	}
	if _, err := client.ListTools(t.Context(), "nobody"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("error %v", err)
	}
}

// A long list comes in pages.
func TestToolsOfAllPages(t *testing.T) {
	next := map[string]string{"": "2", "2": "3", "3": ""}
	client := connect(t, fake{list: func(r *sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error) {
		return &sidecallv1.ListToolsResponse{Tools: []*sidecallv1.Tool{{Name: "tool_" + r.GetPageToken()}}, NextPageToken: next[r.GetPageToken()]}, nil
	}})
	tools, err := client.ListTools(t.Context(), "")
	if err != nil || len(tools) != 3 || tools[2].GetName() != "tool_3" {
		t.Errorf("tools %v, error %v", tools, err)
	}
}

// One that has no end is refused.
func TestToolsWhosePagesGoRoundInCircles(t *testing.T) {
	next := map[string]string{"": "2", "2": "3", "3": "2"}
	asked := 0
	client := connect(t, fake{list: func(r *sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error) {
		if asked++; asked > 9 {
			return nil, status.Error(codes.Internal, "asked for ever")
		}
		return &sidecallv1.ListToolsResponse{NextPageToken: next[r.GetPageToken()]}, nil
	}})
	if _, err := client.ListTools(t.Context(), ""); !errors.Is(err, sidecall.ErrBrokenAnswer) {
		t.Errorf("error %v", err)
	}
}

func TestTargets(t *testing.T) {
	answer := fake{list: func(*sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error) {
		return &sidecallv1.ListToolsResponse{}, nil
	}}
	socket := filepath.Join(t.TempDir(), "s")
	onSocket, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	onPort, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, onSocket, answer)
	serve(t, onPort, answer)
	// A proxy that is set for the rest of the machine is none of our business.
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	for _, target := range []string{"unix://" + socket, "tcp://" + onPort.Addr().String(), onPort.Addr().String()} {
		if _, err := dial(t, target).ListTools(t.Context(), ""); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
	if _, err := sidecall.Dial("tcp://127.0.0.1:8470\x00"); err == nil || !strings.Contains(err.Error(), "127.0.0.1:8470") {
		t.Errorf("error of a target that is none: %v", err)
	}
	for _, target := range []string{"tcp://127.0.0.1", "tcp://", "unix://sidecall.sock", "http://127.0.0.1:8470", "https://sidecall:8470"} {
		if _, err := sidecall.Dial(target); err == nil || err.Error() != "target: want tcp://host:port or unix:///path, got "+strconv.Quote(target) {
			t.Errorf("error of a target that is none: %v", err)
		}
	}
}

func TestASidecarThatIsNotThereIsUnavailable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = dial(t, gone).ExecuteTool(t.Context(), sidecall.Call{ToolUseID: "1", ToolName: "now", ConversationID: "c"})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("error %v", err)
	}
}

// ran answers every call.
func ran(r *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
	res := &sidecallv1.ExecuteToolsResponse{}
	for _, call := range r.GetCalls() {
		res.Results = append(res.Results, &sidecallv1.ExecuteToolResponse{ToolUseId: call.GetToolUseId(), Content: "ran"})
	}
	return res, nil
}

// A call that no request can hold costs one result, and not those of the others.
func TestACallThatNoRequestCanHold(t *testing.T) {
	client := connect(t, fake{tools: ran, fits: func(calls []*sidecallv1.ExecuteToolRequest) bool {
		return !slices.ContainsFunc(calls, func(c *sidecallv1.ExecuteToolRequest) bool { return len(c.GetArgumentsJson()) > 50 })
	}})
	of := func(id, arguments string) sidecall.Call {
		return sidecall.Call{ToolUseID: id, ToolName: "save", ConversationID: "c", Arguments: arguments}
	}
	large := of("b", strings.Repeat("ä", 100))
	results, err := client.ExecuteTools(t.Context(), of("a", "{}"), large, of("c", "{}"), of("d", "{}"))
	if err != nil || len(results) != 4 {
		t.Fatal(results, err)
	}
	for i, id := range []string{"a", "b", "c", "d"} {
		if r := results[i]; r.GetToolUseId() != id || r.GetIsError() != (id == "b") {
			t.Errorf("result %d: %v", i, r)
		}
	}
	want := &sidecall.Error{
		Code: "INVALID_ARGS", Constraint: "a call has at most 4194304 bytes (limits.max_request_bytes)", Received: "(200 bytes of arguments)",
		Hint: "Nothing was run. Shorten the arguments, or split them, then call save again: once for each part.",
	}
	if r := results[1]; !proto.Equal(r.GetError(), want) || r.GetRecovery().GetClass() != sidecallv1.RecoveryClass_RECOVERY_CLASS_MALFORMED {
		t.Errorf("it is told %v", r)
	}
	if one, err := client.ExecuteTool(t.Context(), large); err != nil || !proto.Equal(one, results[1]) {
		t.Errorf("alone it is told %v, %v", one, err)
	}
}

// Calls that do not fit into one request go in several.
func TestCallsThatDoNotFitIntoOneRequest(t *testing.T) {
	client := connect(t, fake{tools: ran, fits: func(calls []*sidecallv1.ExecuteToolRequest) bool { return len(calls) <= 2 }})
	var calls []sidecall.Call
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		calls = append(calls, sidecall.Call{ToolUseID: id, ToolName: "save", ConversationID: "c"})
	}
	results, err := client.ExecuteTools(t.Context(), calls...)
	if err != nil || len(results) != len(calls) {
		t.Fatal(results, err)
	}
	for i, r := range results {
		if r.GetToolUseId() != calls[i].ToolUseID || r.GetContent() != "ran" {
			t.Errorf("result %d: %v", i, r)
		}
	}
}

// Calls of no conversation are the program's mistake: nothing of them is sent.
func TestCallsOfNoConversation(t *testing.T) {
	client := connect(t, fake{}) // which would panic
	call := sidecall.Call{ToolUseID: "1", ToolName: "save"}
	_, one := client.ExecuteTool(t.Context(), call)
	_, batch := client.ExecuteTools(t.Context(), call)
	_, turn := client.RunTools(t.Context(), `{"role":"assistant","content":"done"}`, sidecall.Call{})
	_, loop := client.RunLoop(t.Context(), nil, nil, sidecall.LoopOptions{})
	for name, err := range map[string]error{"one": one, "batch": batch, "turn": turn, "loop": loop} {
		if !errors.Is(err, sidecall.ErrNoConversation) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
