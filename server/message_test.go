package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// vector is a message with what is read in it and written for it.
type vector struct {
	Name    string
	Message json.RawMessage
	Refused bool
	Turn    struct {
		Format, ID, Cut, Reason string
		Tokens                  int64
		Messages                []json.RawMessage
		Calls                   []provider.Made
	}
	Results  []json.RawMessage
	Appended []json.RawMessage
}

func vectors(t *testing.T) (all []vector) {
	t.Helper()
	text, err := os.ReadFile("../clients/testdata/turns.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all) < 30 {
		t.Fatalf("%d turns, %v", len(all), err)
	}
	return all
}

// loose is a JSON value in which nothing of how it was written is left; a text that is
// none is itself.
func loose(text string) (v any) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil {
		return text
	}
	return v
}

func looseAll[T ~string | ~[]byte](raw []T) (all []any) {
	for _, r := range raw {
		all = append(all, loose(string(r)))
	}
	return all
}

// What is read in the messages of providers, and written for them.
func TestTurnsOfProviders(t *testing.T) {
	s := service(calltest.New(t))
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			read, err := s.ReadMessage(t.Context(), &sidecallv1.ReadMessageRequest{MessageJson: string(v.Message)})
			if v.Refused {
				if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "message_json: ") {
					t.Errorf("read %v, %v", read, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			turn, err := provider.Read(string(v.Message))
			if err != nil || turn.Reason != v.Turn.Reason {
				t.Errorf("its reason is %q, %v", turn.Reason, err)
			}
			if read.GetProvider() != v.Turn.Format || read.GetId() != v.Turn.ID || read.GetCut() != v.Turn.Cut ||
				read.GetTokens() != v.Turn.Tokens || int(read.GetCalls()) != len(v.Turn.Calls) {
				t.Errorf("read %v, want %+v", read, v.Turn)
			}
			if diff := cmp.Diff(looseAll(v.Turn.Messages), looseAll(read.GetMessagesJson())); diff != "" {
				t.Error(diff)
			}
			for i, c := range turn.Calls {
				if want := v.Turn.Calls[i]; c.ID != want.ID || c.Tool != want.Tool || !cmp.Equal(loose(c.Arguments), loose(want.Arguments)) {
					t.Errorf("call %d is %+v, want %+v", i, c, want)
				}
			}
			if diff := cmp.Diff(looseAll(v.Appended), looseAll(appended(t, s, v))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// appended is what is appended for the results of a vector; those of a message that was cut
// are the sidecar's own.
func appended(t *testing.T, s *Service, v vector) []string {
	t.Helper()
	if v.Turn.Cut != "" {
		res, err := s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{
			MessageJson: string(v.Message), Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetMessagesJson()
	}
	results := make([]*sidecallv1.ExecuteToolResponse, len(v.Results))
	for i, raw := range v.Results {
		results[i] = &sidecallv1.ExecuteToolResponse{}
		if err := protojson.Unmarshal(raw, results[i]); err != nil {
			t.Fatal(err)
		}
	}
	messages, err := written(provider.Format(v.Turn.Format), results)
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// hearing is a tool that tells what it is called with.
func hearing(heard *[]backend.Invocation) *calltest.Backend {
	var mu sync.Mutex // the calls of a message run at the same time
	return &calltest.Backend{Do: func(_ context.Context, one backend.Invocation) (tool.Reply, *tool.Failure) {
		mu.Lock()
		defer mu.Unlock()
		*heard = append(*heard, one)
		return tool.Reply{Text: []byte("ok")}, nil
	}}
}

const asks = `{"id":"msg_1","type":"message","role":"assistant","stop_reason":"tool_use","content":[
	{"type":"tool_use","id":"a","name":"look","input":{"order_id": "A-1", "n": 12345678901234567890.10}},
	{"type":"tool_use","id":"b","name":"look","input":{"order_id":"A-1"}}]}`

// A turn is named by its message unless the program names it, and so is the message.
func TestAMessageNamesItsTurn(t *testing.T) {
	for _, c := range []struct{ turn, message, wantTurn, wantMessage string }{{"", "", "msg_1", "msg_1"}, {"7", "", "7", "7"}, {"7", "m", "7", "m"}} {
		s, read := service(calltest.New(t)), &turn{}
		err := s.read(t.Context(), s.Executor.Catalog.Snapshot(), &sidecallv1.RunMessageRequest{MessageJson: asks, Shared: &sidecallv1.ExecuteToolRequest{
			ConversationId: "c1", PromptId: "p", TurnId: c.turn, MessageId: c.message, Labels: map[string]string{"team": "shop"},
		}}, read)
		if err != nil || len(read.requests) != 2 {
			t.Fatalf("%+v, %v", read, err)
		}
		for i, one := range read.requests {
			if one.Key.ID != string(rune('a'+i)) || one.Key.Turn != c.wantTurn || one.Message != c.wantMessage ||
				one.Key.Conversation != "c1" || one.Prompt != "p" || one.Labels["team"] != "shop" {
				t.Errorf("%+v", one)
			}
		}
	}
}

// Arguments come to the tool as the model wrote them.
func TestArgumentsOfAMessageAreUntouched(t *testing.T) {
	for text, want := range map[string]string{
		asks: `{"order_id": "A-1", "n": 12345678901234567890.10}`,
		`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"look","arguments":"{\"n\": 1.0, \"s\":\"\\u00e9\"}"}}]}`: `{"n": 1.0, "s":"\u00e9"}`,
		`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"look","arguments":"{\"s\":\"x\ud83d\"}"}}]}`:             `{"s":"x\ud83d"}`,
		`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"look","arguments":"{\"s\":\"\ud83d\ude00\"}"}}]}`:        `{"s":"😀"}`,
		`{"role":"assistant","type":"message","content":[{"type":"tool_use","id":"a","name":"look","input":{"a":1,"a":2}}]}`:      `{"a":1,"a":2}`,
		`{"role":"assistant","type":"message","content":[{"type":"tool_use","id":"a","name":"look","input":[1, 2]}]}`:             `[1, 2]`,
		`{"role":"assistant","type":"message","content":[{"type":"tool_use","id":"a","name":"look","input":null}]}`:               ``,
	} {
		read, err := provider.Read(text)
		if err != nil || read.Calls[0].Arguments != want {
			t.Errorf("%s: read %+v, %v", text, read, err)
		}
	}
}

// Sent again, a message is answered as the first time, and nothing runs twice.
func TestAMessageRunsOnce(t *testing.T) {
	var heard []backend.Invocation
	s := service(calltest.New(t, calltest.NewRoute(t, "look", tool.NonIdempotent, hearing(&heard))))
	message := strings.ReplaceAll(asks, `, "n": 12345678901234567890.10`, "")
	var first *sidecallv1.RunMessageResponse
	for range 2 {
		res, err := s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{MessageJson: message, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}})
		if err != nil || len(res.GetResults()) != 2 || len(res.GetMessagesJson()) != 1 || res.GetStop() || res.GetRequireEscalation() || res.GetBudgetExceeded() {
			t.Fatalf("%v, %v", res, err)
		}
		if first == nil {
			first = res
		} else if res.GetMessagesJson()[0] != first.GetMessagesJson()[0] || !res.GetResults()[0].GetReplayed() {
			t.Errorf("%v after %v", res, first)
		}
	}
	if len(heard) != 2 {
		t.Errorf("the tool ran %d times", len(heard))
	}
}

// A message has more calls than a batch, and no more than a turn can have.
func TestAMessageOfManyCalls(t *testing.T) {
	var heard []backend.Invocation
	lock := make(chan struct{}, 1)
	b := hearing(&heard)
	do := b.Do
	b.Do = func(ctx context.Context, one backend.Invocation) (tool.Reply, *tool.Failure) {
		lock <- struct{}{}
		defer func() { <-lock }()
		return do(ctx, one)
	}
	s := service(calltest.New(t, calltest.NewRoute(t, "look", tool.ReadOnly, b)))
	for calls, code := range map[int]codes.Code{300: codes.OK, provider.MaxCalls: codes.OK, provider.MaxCalls + 1: codes.InvalidArgument} {
		items := make([]string, calls)
		for i := range items {
			items[i] = fmt.Sprintf(`{"type":"function_call","call_id":"%d","name":"look","arguments":"{\"order_id\":\"A-%d\"}"}`, i, i)
		}
		res, err := s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{
			MessageJson: `{"object":"response","output":[` + strings.Join(items, ",") + `]}`,
			Shared:      &sidecallv1.ExecuteToolRequest{ConversationId: fmt.Sprint("c", calls), TurnId: "1"},
		})
		if status.Code(err) != code {
			t.Fatalf("%d calls: %v", calls, err)
		}
		for i, one := range res.GetResults() {
			if one.GetToolUseId() != fmt.Sprint(i) || one.GetIsError() {
				t.Fatalf("result %d is %v", i, one)
			}
		}
		if err == nil && (len(res.GetResults()) != calls || len(res.GetMessagesJson()) != calls || proto.Size(res) > receivable) {
			t.Errorf("%d calls: %d results, %d messages, %d bytes", calls, len(res.GetResults()), len(res.GetMessagesJson()), proto.Size(res))
		}
	}
}

// Whoever can receive little is told no more than that, and whoever can receive more has
// all of it.
func TestWhatAMessageIsAnsweredFits(t *testing.T) {
	long := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return tool.Reply{Blocks: []tool.Block{{Type: "image", MIMEType: "image/png", Data: make([]byte, 2<<20)}}}, nil
	}}
	s := service(calltest.New(t, calltest.NewRoute(t, "look", tool.ReadOnly, long)))
	for most, whole := range map[int64]bool{0: false, 64 << 20: true} {
		res, err := s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{
			MessageJson: `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"look","arguments":"{\"order_id\":\"A-1\"}"}}]}`,
			Shared:      &sidecallv1.ExecuteToolRequest{ConversationId: "c1", TurnId: fmt.Sprint(most)}, MaxResponseBytes: most,
		})
		if err != nil || (len(res.GetMessagesJson()) == 2) != whole || !whole && proto.Size(res) > receivable {
			t.Errorf("with %d bytes: %d messages, %d bytes, %v", most, len(res.GetMessagesJson()), proto.Size(res), err)
		}
	}
}

// What is each call's own is not shared.
func TestWhatCallsCannotShare(t *testing.T) {
	s := service(calltest.New(t))
	for _, shared := range []*sidecallv1.ExecuteToolRequest{{ToolUseId: "a"}, {ToolName: "look"}, {ArgumentsJson: "{}"}} {
		if _, err := s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{MessageJson: asks, Shared: shared}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", shared, err)
		}
	}
}

// A call that is longer than a request costs its own result.
func TestACallOfAMessageThatIsTooLarge(t *testing.T) {
	var heard []backend.Invocation
	s := service(calltest.New(t, calltest.NewRoute(t, "look", tool.NonIdempotent, hearing(&heard))))
	s.mostArguments = 100
	message := strings.ReplaceAll(asks, `"n": 12345678901234567890.10`, `"text": "`+strings.Repeat("x", 100)+`"`)
	res, err := s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{MessageJson: message, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}})
	if err != nil || len(heard) != 1 {
		t.Fatalf("%d calls were made, %v", len(heard), err)
	}
	if large := res.GetResults()[0]; calltest.Code(large) != tool.CodeInvalidArgs || !large.GetRecovery().GetRetryable() ||
		!strings.Contains(large.GetContent(), "at most 100 bytes (limits.max_request_bytes)") {
		t.Errorf("%v", large)
	}
	if res.GetResults()[1].GetContent() != "ok" {
		t.Errorf("%v", res.GetResults()[1])
	}
}

// What a conversation has left open is made again in its own turn and prompt, at the
// version that the program knows and at no other.
func TestTheOpenCallsOfAConversation(t *testing.T) {
	var heard []backend.Invocation
	c := newConversing(t, map[string]*calltest.Backend{"pay": hearing(&heard)})
	c.append(&sidecallv1.AppendMessagesRequest{
		ConversationId: "c1", Provider: "anthropic", TurnId: "t1", PromptId: "p1", MessagesJson: []string{`{"role":"user","content":"Pay."}`, asking("a", "pay", "b", "pay")},
	})
	first := calltest.Request("a", "pay")
	first.TurnId, first.PromptId = "t1", "p1"
	c.Call(first)
	ask := func(version int64) (*sidecallv1.RunMessageResponse, error) {
		return c.tools.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{OpenAtVersion: version, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}})
	}
	if _, err := ask(1); status.Code(err) != codes.Aborted || len(heard) != 1 {
		t.Errorf("at another version: %v", err)
	}
	res, err := ask(2)
	if err != nil || len(res.GetResults()) != 2 || !res.GetResults()[0].GetReplayed() || res.GetResults()[1].GetReplayed() || len(heard) != 2 {
		t.Fatalf("%v, %v", res, err)
	}
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", ExpectedVersion: 2, MessagesJson: res.GetMessagesJson()})
	if res, err := ask(3); err != nil || len(res.GetResults()) != 0 || len(res.GetMessagesJson()) != 0 {
		t.Errorf("when all is answered: %v, %v", res, err)
	}
}

// A call that is no function's is for its program to run: nobody else makes it, or says that
// it has not run, and it is answered in the form of its kind.
func TestACustomCallThatAConversationHasLeftOpen(t *testing.T) {
	for format, c := range map[string]struct{ message, answered string }{
		"openai":           {`{"role":"assistant","tool_calls":[{"id":"a","type":"custom","custom":{"name":"pay","input":"{\"order_id\":\"A-1\"}"}}]}`, `"tool_call_id":"a"`},
		"openai-responses": {`{"type":"custom_tool_call","call_id":"a","name":"pay","input":"{\"order_id\":\"A-1\"}"}`, `"type":"custom_tool_call_output"`},
	} {
		t.Run(format, func(t *testing.T) {
			var heard []backend.Invocation
			s := newConversing(t, map[string]*calltest.Backend{"pay": hearing(&heard)})
			s.append(&sidecallv1.AppendMessagesRequest{
				ConversationId: "c1", Provider: format, TurnId: "t1", MessagesJson: []string{`{"role":"user","content":"Pay."}`, c.message},
			})
			resumed, err := s.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1"})
			if err != nil || len(resumed.GetPending()) != 1 || len(resumed.GetAnswersJson()) != 1 {
				t.Fatalf("%v, %v", resumed, err)
			}
			pending := resumed.GetPending()[0]
			if pending.GetState() != sidecallv1.Pending_PENDING_UNKNOWN || pending.GetResult().GetRecorded() {
				t.Errorf("pending is %v", pending)
			}
			made, err := s.tools.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{OpenAtVersion: 2, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}})
			if err != nil || len(heard) != 0 || len(made.GetMessagesJson()) != 1 {
				t.Fatalf("%d were made: %v, %v", len(heard), made, err)
			}
			for _, answer := range []string{resumed.GetAnswersJson()[0], made.GetMessagesJson()[0]} {
				if !strings.Contains(answer, c.answered) || !strings.Contains(answer, "OUTCOME_UNKNOWN") {
					t.Errorf("the answer is %s", answer)
				}
			}
		})
	}
}

// What its provider has built in the program alone can answer, and no text does: nothing is said of it, and
// nobody goes on without it.
func TestACallThatItsProgramAloneCanAnswer(t *testing.T) {
	for _, kind := range []string{"computer_call", "shell_call", "local_shell_call", "apply_patch_call", "tool_search_call"} {
		t.Run(kind, func(t *testing.T) {
			s := newConversing(t, nil)
			s.append(&sidecallv1.AppendMessagesRequest{
				ConversationId: "c1", Provider: "openai-responses", TurnId: "t1", MessagesJson: []string{`{"role":"user","content":"Look."}`, `{"type":"` + kind + `","call_id":"a"}`},
			})
			resumed, err := s.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1"})
			if err != nil || len(resumed.GetAnswersJson()) != 0 || len(resumed.GetPending()) != 1 || resumed.GetPending()[0].GetState() != sidecallv1.Pending_PENDING_UNKNOWN {
				t.Fatalf("%v, %v", resumed, err)
			}
			_, err = s.tools.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{OpenAtVersion: 2, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}})
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), provider.AnswerTo(kind)) {
				t.Errorf("it is gone on with: %v", err)
			}
			s.append(&sidecallv1.AppendMessagesRequest{
				ConversationId: "c1", ExpectedVersion: 2, Provider: "openai-responses", MessagesJson: []string{`{"type":"` + provider.AnswerTo(kind) + `","call_id":"a","output":"done"}`, `{"role":"user","content":"And?"}`},
			})
		})
	}
}

// What the provider has run in a container of its own is nobody's to run.
func TestAShellOfTheProvidersIsLeftAlone(t *testing.T) {
	var heard []backend.Invocation
	s := service(calltest.New(t, calltest.NewRoute(t, "look", tool.NonIdempotent, hearing(&heard))))
	res, err := s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1", TurnId: "t1"}, MessageJson: `{"object":"response","output":[
		{"type":"shell_call","call_id":"s","environment":{"type":"container_reference","container_id":"c"}},{"type":"shell_call_output","call_id":"s","output":[]},
		{"type":"function_call","call_id":"a","name":"look","arguments":"{\"order_id\":\"A-1\"}"}]}`})
	if err != nil || len(heard) != 1 || len(res.GetResults()) != 1 {
		t.Errorf("%d were made: %v, %v", len(heard), res, err)
	}
}
