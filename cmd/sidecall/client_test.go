package main

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// fakeSidecar answers as a test says, and counts the resolutions that arrive.
type fakeSidecar struct {
	sidecallv1.UnimplementedToolServiceServer
	sidecallv1.UnimplementedOperatorServiceServer
	sidecallv1.UnimplementedConversationServiceServer

	record  *sidecallv1.Execution
	execute func(context.Context) (*sidecallv1.ExecuteToolResponse, error)
	// asked, when not nil, hears what is to be executed.
	asked func(*sidecallv1.ExecuteToolRequest)
	// dies ends the fake before it answers a resolution.
	dies func()
	// becomes is what a call is after a resolution, when it is not what the
	// request says.
	becomes  sidecallv1.ExecutionState
	resolved atomic.Int32
	// shown are the pages of each conversation, listed those of the list of them, audit is
	// what an audit finds, and audited what was asked of it.
	shown   map[string][]*sidecallv1.ShowConversationResponse
	listed  []*sidecallv1.ListConversationsResponse
	audit   *sidecallv1.AuditConversationsResponse
	audited []*sidecallv1.AuditConversationsRequest
	// receipts are those of each conversation, noted the heads that were given.
	receipts map[string]*sidecallv1.VerifyReceiptsResponse
	noted    []string
	// held are the calls that wait, and decided what is decided of them.
	held    []*sidecallv1.HeldExecution
	decided []*sidecallv1.ApproveExecutionRequest
	// found is what every search finds.
	found *sidecallv1.FindExecutionsResponse
	// tenant is the one that every request has to name; empty where none has to.
	tenant string
}

func (f *fakeSidecar) GetExecution(ctx context.Context, _ *sidecallv1.GetExecutionRequest) (*sidecallv1.Execution, error) {
	return f.record, f.ofItsTenant(ctx)
}

func (f *fakeSidecar) ofItsTenant(ctx context.Context) error {
	if named := metadata.ValueFromIncomingContext(ctx, "sidecall-tenant"); strings.Join(named, " ") != f.tenant {
		return status.Errorf(codes.NotFound, "no record of the tenant %q", named)
	}
	return nil
}

func (f *fakeSidecar) ListUnknown(ctx context.Context, _ *sidecallv1.ListUnknownRequest) (*sidecallv1.ListUnknownResponse, error) {
	return &sidecallv1.ListUnknownResponse{Executions: []*sidecallv1.UnknownExecution{{ToolUseId: "order-1", Tenant: f.tenant, Execution: f.record}}}, f.ofItsTenant(ctx)
}

func (f *fakeSidecar) ExecuteTool(ctx context.Context, req *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
	if f.asked != nil {
		f.asked(req)
	}
	return f.execute(ctx)
}

func (f *fakeSidecar) FindExecutions(ctx context.Context, _ *sidecallv1.FindExecutionsRequest) (*sidecallv1.FindExecutionsResponse, error) {
	return f.found, f.ofItsTenant(ctx)
}

func (f *fakeSidecar) ResolveExecution(ctx context.Context, req *sidecallv1.ResolveExecutionRequest) (*sidecallv1.ResolveExecutionResponse, error) {
	if req.GetValidateOnly() {
		return &sidecallv1.ResolveExecutionResponse{Execution: &sidecallv1.Execution{State: req.GetState(), Result: &sidecallv1.ExecuteToolResponse{Content: "settled: " + req.GetReason()}}}, f.ofItsTenant(ctx)
	}
	f.resolved.Add(1)
	if err := f.ofItsTenant(ctx); err != nil {
		return nil, err
	}
	if f.dies != nil {
		f.dies()
		<-ctx.Done()
	}
	return &sidecallv1.ResolveExecutionResponse{Execution: &sidecallv1.Execution{State: cmp.Or(f.becomes, req.GetState())}}, nil
}

func (f *fakeSidecar) ListHeld(ctx context.Context, _ *sidecallv1.ListHeldRequest) (*sidecallv1.ListHeldResponse, error) {
	return &sidecallv1.ListHeldResponse{Executions: f.held}, f.ofItsTenant(ctx)
}

func (f *fakeSidecar) ApproveExecution(ctx context.Context, req *sidecallv1.ApproveExecutionRequest) (*sidecallv1.ApproveExecutionResponse, error) {
	f.decided = append(f.decided, req)
	if f.dies != nil {
		f.dies()
		<-ctx.Done()
	}
	return &sidecallv1.ApproveExecutionResponse{Execution: &sidecallv1.Execution{State: cmp.Or(f.becomes, sidecallv1.ExecutionState_EXECUTION_STATE_HELD)}}, f.ofItsTenant(ctx)
}

func (f *fakeSidecar) DenyExecution(ctx context.Context, req *sidecallv1.DenyExecutionRequest) (*sidecallv1.DenyExecutionResponse, error) {
	f.decided = append(f.decided, &sidecallv1.ApproveExecutionRequest{
		ConversationId: req.GetConversationId(), TurnId: req.GetTurnId(), ToolUseId: req.GetToolUseId(),
		DecidedBy: req.GetDecidedBy(), Reason: req.GetReason(), Hold: req.GetHold(), Fingerprint: req.GetFingerprint(),
	})
	return &sidecallv1.DenyExecutionResponse{Execution: &sidecallv1.Execution{State: sidecallv1.ExecutionState_EXECUTION_STATE_DONE}}, f.ofItsTenant(ctx)
}

// serve serves the fake until the test ends, or until stop is called.
func (f *fakeSidecar) serve(t *testing.T) (addr string, stop func()) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	sidecallv1.RegisterToolServiceServer(server, f)
	sidecallv1.RegisterOperatorServiceServer(server, f)
	sidecallv1.RegisterConversationServiceServer(server, f)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "tcp://" + listener.Addr().String(), server.Stop
}

// Each way in which a sidecar does not answer is told as what it is.
func TestWhyThereIsNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		dies   bool
		code   int
		says   string
	}{
		"it is draining":    {status.Error(codes.Unavailable, "the sidecar is draining; nothing was started"), false, exitUnavailable, "the sidecar is draining; nothing was started"},
		"its store is down": {status.Error(codes.Unavailable, "the store is down; nothing was changed"), false, exitUnavailable, "the store is down"},
		"a bad request":     {status.Error(codes.InvalidArgument, "labels: too many"), false, exitUsage, "labels: too many"},
		"it has a bug":      {status.Error(codes.Internal, "look for err_1"), false, exitUnavailable, "Internal: look for err_1"},
		"it dies":           {nil, true, exitUnavailable, "went away before it had answered, so a call may have run"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeSidecar{}
			addr, stop := fake.serve(t)
			dead := make(chan struct{})
			fake.execute = func(ctx context.Context) (*sidecallv1.ExecuteToolResponse, error) {
				if c.dies {
					go func() { stop(); close(dead) }()
					<-ctx.Done()
				}
				return nil, c.answer
			}
			got := command(t, "call", "pay", "--addr", addr)
			if got.code != c.code || got.err == nil || !strings.Contains(got.err.Error(), c.says) || strings.Contains(got.err.Error(), "start one") {
				t.Errorf("exit code %d, %v; want %d and %q", got.code, got.err, c.code, c.says)
			}
			if c.dies {
				<-dead
			}
		})
	}
}

// Whoever breaks off is told what may have become of the call, and with which flags
// to ask.
func TestWhoBreaksOffIsToldWhatMayHaveRun(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	fake := &fakeSidecar{}
	fake.execute = func(ctx context.Context) (*sidecallv1.ExecuteToolResponse, error) {
		interrupt()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	addr, _ := fake.serve(t)
	root := newRoot()
	var errOut bytes.Buffer
	root.SetErr(&errOut)
	root.SetArgs([]string{"call", "pay", "--addr", addr, "--id", "toolu_1"})
	cmd, err := root.ExecuteContextC(ctx)
	if code := report(cmd, err); code != exitUnavailable || err.Error() != "broken off before the sidecar had answered, so a call may have run: only the same ids are safe to send again" {
		t.Errorf("exit code %d, %v", code, err)
	}
	if !strings.Contains(errOut.String(), "--id toolu_1 --conversation cli_") {
		t.Errorf("it says %q", errOut.String())
	}
}
