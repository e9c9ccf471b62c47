package sidecall_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// left is a sidecar with a conversation that a loop has left behind.
type left struct {
	sidecallv1.UnimplementedConversationServiceServer
	fake

	resumed  *sidecallv1.ResumeConversationResponse
	appended []string
}

func (l *left) ResumeConversation(context.Context, *sidecallv1.ResumeConversationRequest) (*sidecallv1.ResumeConversationResponse, error) {
	return l.resumed, nil
}

func (l *left) AppendMessages(_ context.Context, r *sidecallv1.AppendMessagesRequest) (*sidecallv1.AppendMessagesResponse, error) {
	l.appended = append(l.appended, r.GetMessagesJson()...)
	return &sidecallv1.AppendMessagesResponse{Version: r.GetExpectedVersion() + int64(len(r.GetMessagesJson()))}, nil
}

func (l *left) connect(t *testing.T) *sidecall.Client {
	t.Helper()
	pipe := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	sidecallv1.RegisterToolServiceServer(server, l.fake)
	sidecallv1.RegisterConversationServiceServer(server, l)
	served := make(chan error, 1)
	go func() { served <- server.Serve(pipe) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return dial(t, "passthrough:///left", grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }))
}

// A call that may have run, and of which nothing is recorded any more, is not sent
// again: it would run, and for the second time. The model is told what is known.
func TestACallOfWhichNothingIsRecordedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	var asked []*sidecallv1.ExecuteToolsRequest
	l := &left{fake: answering(&asked, fine), resumed: &sidecallv1.ResumeConversationResponse{
		Version: 1, Provider: "anthropic", MessagesJson: []string{wants},
		Pending: []*sidecallv1.PendingCall{
			{ToolUseId: "a", TurnId: "t", State: sidecallv1.Pending_PENDING_UNKNOWN, Result: &sidecallv1.ExecuteToolResponse{ToolUseId: "a", IsError: true, Content: "nobody knows"}},
			{ToolUseId: "b", TurnId: "t", State: sidecallv1.Pending_PENDING_UNKNOWN, Result: &sidecallv1.ExecuteToolResponse{ToolUseId: "b", IsError: true, Content: "known by its record", Recorded: true}},
		},
	}}
	kept, err := l.connect(t).Conversation(t.Context(), "c", sidecall.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := kept.Resume(t.Context(), sidecall.Call{})
	if err != nil || len(answer.Results) != 2 || answer.Results[0].GetContent() != "nobody knows" || answer.Results[1].GetContent() != "ok" {
		t.Fatalf("%+v, %v", answer, err)
	}
	if len(asked) != 1 || len(asked[0].GetCalls()) != 1 || asked[0].GetCalls()[0].GetToolUseId() != "b" {
		t.Errorf("sent again: %v", asked)
	}
	if len(l.appended) != 1 || !strings.Contains(l.appended[0], "nobody knows") {
		t.Errorf("appended %q", l.appended)
	}
}
