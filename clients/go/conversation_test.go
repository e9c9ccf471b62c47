package sidecall_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/internal/provider"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// book keeps one conversation, append by append, and fails calls with a status.
type book struct {
	reading
	sidecallv1.UnimplementedConversationServiceServer

	appends [][]string
	page    int      // messages of the first page; 0: all
	since   []string // appended by another while it is loaded
	sent    []*sidecallv1.AppendMessagesRequest
	prompt  string // of the last append
	// refuses appends, once each, with a status.
	refuses []codes.Code
	pending []*sidecallv1.PendingCall
	asked   []*sidecallv1.ExecuteToolsRequest
	most    []int64 // how large what answers a message may be
	fails   codes.Code
	resumed []*sidecallv1.ResumeConversationRequest
}

func (b *book) ResumeConversation(_ context.Context, r *sidecallv1.ResumeConversationRequest) (*sidecallv1.ResumeConversationResponse, error) {
	b.resumed = append(b.resumed, r)
	if len(b.appends) == 0 {
		return nil, status.Error(codes.NotFound, "there is none")
	}
	all := slices.Concat(b.appends...)
	first := all[:min(b.page, len(all))]
	if b.page == 0 {
		first = all
	}
	return &sidecallv1.ResumeConversationResponse{Version: int64(len(all)), Provider: "anthropic", MessagesJson: first, Pending: b.pending, PromptId: b.prompt}, nil
}

// LoadConversation has what came to it since it was resumed, too.
func (b *book) LoadConversation(_ context.Context, r *sidecallv1.LoadConversationRequest) (*sidecallv1.LoadConversationResponse, error) {
	return &sidecallv1.LoadConversationResponse{MessagesJson: append(slices.Concat(b.appends...), b.since...)[r.GetFromVersion():]}, nil
}

func (b *book) AppendMessages(_ context.Context, r *sidecallv1.AppendMessagesRequest) (*sidecallv1.AppendMessagesResponse, error) {
	b.sent = append(b.sent, r)
	if len(b.refuses) > 0 {
		code := b.refuses[0]
		b.refuses = b.refuses[1:]
		return nil, status.Error(code, "resume the conversation")
	}
	b.appends, b.prompt = append(b.appends, r.GetMessagesJson()), r.GetPromptId()
	return &sidecallv1.AppendMessagesResponse{Version: r.GetExpectedVersion() + int64(len(r.GetMessagesJson()))}, nil
}

func (b *book) ExecuteTools(ctx context.Context, r *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
	if b.fails != codes.OK {
		return nil, status.Error(b.fails, "as the test wants it")
	}
	return answering(&b.asked, fine).ExecuteTools(ctx, r)
}

// RunMessage runs the calls of a message, or those that are pending.
func (b *book) RunMessage(ctx context.Context, r *sidecallv1.RunMessageRequest) (*sidecallv1.RunMessageResponse, error) {
	b.most = append(b.most, r.GetMaxResponseBytes())
	if r.GetOpenAtVersion() == 0 {
		return runs(b.ExecuteTools).message(ctx, r)
	}
	if all := slices.Concat(b.appends...); r.GetOpenAtVersion() != int64(len(all)) {
		return nil, status.Error(codes.Aborted, "resume the conversation")
	}
	calls := make([]provider.Made, len(b.pending))
	for i, p := range b.pending {
		calls[i] = provider.Made{ID: p.GetToolUseId()}
	}
	return runs(b.ExecuteTools).calls(ctx, provider.Anthropic, calls, r.GetShared(), b.pending[0].GetTurnId())
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
func saying(messages ...string) sidecall.Ask {
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
	ended, err := client.RunLoop(t.Context(), saying(cut, done), []any{hello}, sidecall.LoopOptions{Keep: kept})
	if err != nil || ended.ExitReason != "end_turn" || ended.Turns != 2 {
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
	if _, err := client.RunLoop(t.Context(), saying(wants), []any{hello}, sidecall.LoopOptions{Keep: kept}); status.Code(err) != codes.Internal {
		t.Fatal(err)
	}
	b.fails = codes.OK
	if want := []int64{3 << 20}; !slices.Equal(b.most, want) { // so that it can be kept
		t.Errorf("answers of %d bytes at the most, want %d", b.most, want)
	}
	b.pending = []*sidecallv1.PendingCall{{ToolUseId: "a", TurnId: "msg_1"}, {ToolUseId: "b", TurnId: "msg_1"}}
	ended, err := client.RunLoop(t.Context(), saying(done), nil, sidecall.LoopOptions{Keep: kept})
	if err != nil || ended.ExitReason != "end_turn" || ended.Turns != 1 || len(ended.Messages) != 4 {
		t.Fatalf("%+v, %v", ended, err)
	}
	if len(b.asked) != 1 || len(b.asked[0].GetCalls()) != 2 || b.asked[0].GetCalls()[1].GetTurnId() != "msg_1" {
		t.Errorf("asked %v", b.asked)
	}
	for _, call := range b.asked[0].GetCalls() {
		if call.GetPromptId() != ended.PromptID {
			t.Errorf("a call in the prompt %q of %q", call.GetPromptId(), ended.PromptID)
		}
	}
	if prompts := prompts(b); !slices.Equal(slices.Compact(prompts), []string{ended.PromptID}) {
		t.Errorf("appends in %q, and it went on in %q", prompts, ended.PromptID)
	}
}

// prompts are those of the appends.
func prompts(b *book) (named []string) {
	for _, r := range b.sent {
		named = append(named, r.GetPromptId())
	}
	return named
}

// The calls of an unfinished turn stay in their prompt, by whomever they are made; a
// message of the user begins another.
func TestMessagesBeginAnotherPromptAndCallsStayInTheirs(t *testing.T) {
	b := &book{}
	client := keeping(t, b)
	run := func(said string, prompt string, messages ...any) *sidecall.Loop {
		t.Helper()
		kept, err := client.Conversation(t.Context(), "c", sidecall.Anthropic)
		if err != nil {
			t.Fatal(err)
		}
		ended, err := client.RunLoop(t.Context(), saying(said), messages, sidecall.LoopOptions{Of: sidecall.Call{PromptID: prompt}, Keep: kept, MaxTurns: 1})
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}
	first := run(wants, "", hello)
	b.appends, b.asked = b.appends[:len(b.appends)-1], nil // without the results
	b.pending = []*sidecallv1.PendingCall{{ToolUseId: "a", TurnId: "msg_1"}, {ToolUseId: "b", TurnId: "msg_1"}}
	second := run(done, "", hello)
	if first.PromptID == "" || second.PromptID == first.PromptID || b.asked[0].GetCalls()[0].GetPromptId() != first.PromptID {
		t.Errorf("the prompts are %q and %q; asked %v", first.PromptID, second.PromptID, b.asked)
	}
	b.pending = nil
	named := run(done, "mine", hello)
	if named.PromptID != "mine" {
		t.Errorf("the prompt that was named is %q", named.PromptID)
	}
	want := []string{first.PromptID, first.PromptID, first.PromptID, first.PromptID, second.PromptID, second.PromptID, "mine", "mine"}
	if got := prompts(b); !slices.Equal(got, want) {
		t.Errorf("appends in %q, want %q", got, want)
	}
}

// An append is known by its id when it is sent again; each has its own. What contradicts
// the record of a call is stale, as what comes second is.
func TestAppendsAreKnownByTheirIDs(t *testing.T) {
	b := &book{refuses: []codes.Code{codes.Unavailable}}
	client := keeping(t, b)
	kept, err := client.Conversation(t.Context(), "c", sidecall.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Append(t.Context(), "", hello); err != nil {
		t.Fatal(err)
	}
	if len(b.sent) != 2 || b.sent[0].GetAppendId() == "" || b.sent[0].GetAppendId() != b.sent[1].GetAppendId() {
		t.Errorf("sent %v", b.sent)
	}
	for _, code := range []codes.Code{codes.Aborted, codes.FailedPrecondition} {
		b.refuses = []codes.Code{code}
		if err := kept.Append(t.Context(), "", hello); !errors.Is(err, sidecall.ErrStaleConversation) || status.Code(err) != code {
			t.Errorf("%s: %v", code, err)
		}
		if _, err := kept.Resume(t.Context(), sidecall.Call{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := kept.Append(t.Context(), "", hello); err != nil || len(kept.Messages) != 2 {
		t.Errorf("%v, %d messages", err, len(kept.Messages))
	}
	ids := map[string]bool{}
	for _, r := range b.sent {
		ids[r.GetAppendId()] = true
	}
	if len(ids) != 4 {
		t.Errorf("%d ids of %d requests", len(ids), len(b.sent))
	}
}

// What another has appended while a conversation is loaded is none of it: nobody has said which of
// its calls are open.
func TestAConversationIsThatOfItsVersion(t *testing.T) {
	b := &book{appends: [][]string{{`{"role":"user","content":"1"}`, `{"role":"assistant","content":"2"}`}}, page: 1, since: []string{wants}}
	kept, err := keeping(t, b).Conversation(t.Context(), "c", sidecall.Anthropic)
	if err != nil || len(kept.Messages) != 2 {
		t.Fatalf("%s, %v", kept.Messages, err)
	}
	if err := kept.Append(t.Context(), "", `{"role":"user","content":"3"}`); err != nil || b.sent[0].GetExpectedVersion() != 2 {
		t.Errorf("appended %v, %v", b.sent, err)
	}
}

func TestWhatIsTooLargeToBeKept(t *testing.T) {
	b := &book{}
	kept, err := keeping(t, b).Conversation(t.Context(), "c", sidecall.Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	long := map[string]string{"role": "user", "content": strings.Repeat("é", 3<<19)}
	if err := kept.Append(t.Context(), "", hello, long); !errors.Is(err, sidecall.ErrWrongMessage) || !strings.Contains(err.Error(), "message 1 has 3145") || len(b.sent) > 0 {
		t.Errorf("%v; sent %d", err, len(b.sent))
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
