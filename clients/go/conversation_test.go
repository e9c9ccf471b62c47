package sidecall_test

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// book keeps one conversation, append by append, and fails calls with a status.
type book struct {
	sidecallv1.UnimplementedToolServiceServer
	sidecallv1.UnimplementedConversationServiceServer
	appends [][]string
	pending []*sidecallv1.PendingCall
	asked   []*sidecallv1.ExecuteToolsRequest
	fails   codes.Code
	resumed []*sidecallv1.ResumeConversationRequest
}

func (b *book) ResumeConversation(_ context.Context, r *sidecallv1.ResumeConversationRequest) (*sidecallv1.ResumeConversationResponse, error) {
	b.resumed = append(b.resumed, r)
	if len(b.appends) == 0 {
		return nil, status.Error(codes.NotFound, "there is none")
	}
	all := slices.Concat(b.appends...)
	return &sidecallv1.ResumeConversationResponse{Version: int64(len(all)), Provider: "anthropic", MessagesJson: all, Pending: b.pending}, nil
}

func (b *book) AppendMessages(_ context.Context, r *sidecallv1.AppendMessagesRequest) (*sidecallv1.AppendMessagesResponse, error) {
	b.appends = append(b.appends, r.GetMessagesJson())
	return &sidecallv1.AppendMessagesResponse{Version: r.GetExpectedVersion() + int64(len(r.GetMessagesJson()))}, nil
}

func (b *book) ExecuteTools(ctx context.Context, r *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
	if b.fails != codes.OK {
		return nil, status.Error(b.fails, "as the test wants it")
	}
	return answering(&b.asked, fine).ExecuteTools(ctx, r)
}

// keeping returns a client of a sidecar that keeps a conversation.
func keeping(t *testing.T, b *book) *sidecall.Client {
	t.Helper()
	listener, server := bufconn.Listen(1<<16), grpc.NewServer()
	sidecallv1.RegisterToolServiceServer(server, b)
	sidecallv1.RegisterConversationServiceServer(server, b)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return dial(t, "passthrough:///fake", grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
}

// saying is a model that gives these messages, one after the other.
func saying(messages ...string) func(context.Context, []json.RawMessage) (any, error) {
	return func(context.Context, []json.RawMessage) (any, error) {
		said := messages[0]
		messages = messages[1:]
		return said, nil
	}
}

var hello = map[string]string{"role": "user", "content": "Hi."}

// The calls of a message that was cut are never kept without their answers: whoever goes
// on with the conversation would run them.
func TestCallsOfAMessageThatWasCutAreKeptWithTheirAnswers(t *testing.T) {
	b := &book{}
	client := keeping(t, b)
	kept, err := client.Conversation(t.Context(), "c", sidecall.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	cut := strings.Replace(wants, `"stop_reason":"tool_use"`, `"stop_reason":"max_tokens"`, 1)
	ended, err := sidecall.Loop{Ask: saying(cut, done), Keep: kept}.Run(t.Context(), client, hello)
	if err != nil || ended.Reason != "end_turn" || ended.Turns != 2 {
		t.Fatalf("%+v, %v", ended, err)
	}
	var sizes []int
	for _, messages := range b.appends {
		sizes = append(sizes, len(messages))
	}
	if want := []int{1, 2, 1}; !slices.Equal(sizes, want) || len(b.asked) > 0 {
		t.Errorf("appends of %v messages, want %v: %q; asked %v", sizes, want, b.appends, b.asked)
	}
	if len(kept.Messages) != 4 || len(ended.Messages) != 4 {
		t.Errorf("kept are %s, and the loop has %s", kept.Messages, ended.Messages)
	}
}

// A loop that failed in its calls is run again with the conversation that it had: it has
// not ended, and its calls are made.
func TestALoopThatFailedInItsCallsGoesOnWithItsConversation(t *testing.T) {
	b := &book{fails: codes.Internal}
	client := keeping(t, b)
	kept, err := client.Conversation(t.Context(), "c", sidecall.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (sidecall.Loop{Ask: saying(wants), Keep: kept}).Run(t.Context(), client, hello); status.Code(err) != codes.Internal {
		t.Fatal(err)
	}
	b.fails = codes.OK
	b.pending = []*sidecallv1.PendingCall{{ToolUseId: "a", TurnId: "msg_1"}, {ToolUseId: "b", TurnId: "msg_1"}}
	ended, err := sidecall.Loop{Ask: saying(done), Keep: kept}.Run(t.Context(), client)
	if err != nil || ended.Reason != "end_turn" || ended.Turns != 1 || len(ended.Messages) != 4 {
		t.Fatalf("%+v, %v", ended, err)
	}
	if len(b.asked) != 1 || len(b.asked[0].GetCalls()) != 2 || b.asked[0].GetCalls()[1].GetTurnId() != "msg_1" {
		t.Errorf("asked %v", b.asked)
	}
}

// A conversation is loaded without old results when that is asked for, and from then on.
func TestAConversationIsLoadedCompacted(t *testing.T) {
	t.Parallel()
	b := &book{appends: [][]string{{`{"role":"user","content":"Hi."}`}}}
	client := keeping(t, b)
	kept, err := client.Conversation(t.Context(), "c", sidecall.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Compact(t.Context(), sidecall.Compaction{AfterTurns: 3, ToTokens: 5000}); err != nil {
		t.Fatal(err)
	}
	if first, then := b.resumed[0], b.resumed[1]; first.GetCompactAfterTurns() != 0 || then.GetCompactAfterTurns() != 3 || then.GetCompactToTokens() != 5000 || len(kept.Messages) != 1 {
		t.Errorf("asked for %v, and then for %v", first, then)
	}
}
