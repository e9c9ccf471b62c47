package sidecall_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	wants = `{"id":"msg_1","type":"message","role":"assistant","stop_reason":"tool_use","content":[
		{"type":"tool_use","id":"a","name":"look","input":{}},{"type":"tool_use","id":"b","name":"look","input":{}}],"usage":{"input_tokens":10,"output_tokens":5}}`
	done = `{"id":"msg_2","type":"message","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":1,"output_tokens":1}}`
)

// answering is a fake that answers each call of a batch, and keeps what it was asked.
func answering(asked *[]*sidecallv1.ExecuteToolsRequest, result func(*sidecallv1.ExecuteToolResponse)) fake {
	return fake{tools: func(r *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
		*asked = append(*asked, r)
		response := &sidecallv1.ExecuteToolsResponse{}
		for _, c := range r.GetCalls() {
			one := &sidecallv1.ExecuteToolResponse{ToolUseId: c.GetToolUseId(), Content: "ok"}
			result(one)
			response.Results = append(response.Results, one)
		}
		return response, nil
	}}
}

func fine(*sidecallv1.ExecuteToolResponse) {}

// A turn has the identity that it is given, or the provider's.
func TestATurnIsOneBatch(t *testing.T) {
	var asked []*sidecallv1.ExecuteToolsRequest
	client := connect(t, answering(&asked, fine))
	for _, c := range []struct{ given, want string }{{"", "msg_1"}, {"7", "7"}} {
		asked = nil
		answer, err := client.RunTools(t.Context(), wants, sidecall.Call{ConversationID: "c", PromptID: "p", TurnID: c.given})
		if err != nil || len(answer.Messages) != 1 || len(answer.Results) != 2 || answer.Stop || answer.RequireEscalation {
			t.Fatalf("%+v, %v", answer, err)
		}
		if len(asked) != 1 || len(asked[0].GetCalls()) != 2 {
			t.Fatalf("asked %v", asked)
		}
		for i, call := range asked[0].GetCalls() {
			if call.GetToolUseId() != string(rune('a'+i)) || call.GetConversationId() != "c" || call.GetPromptId() != "p" || call.GetTurnId() != c.want {
				t.Errorf("call %d is %v", i, call)
			}
		}
	}
}

// While the sidecar is away the same calls are sent again; no other error is.
func TestATurnIsSentAgainWhileTheSidecarIsAway(t *testing.T) {
	for code, want := range map[codes.Code]int{codes.Unavailable: 3, codes.Internal: 1, codes.InvalidArgument: 1} {
		times := 0
		client := connect(t, fake{tools: func(r *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
			if times++; times < 3 {
				return nil, status.Error(code, "as the test wants it")
			}
			return &sidecallv1.ExecuteToolsResponse{Results: []*sidecallv1.ExecuteToolResponse{{ToolUseId: "a"}, {ToolUseId: "b"}}}, nil
		}})
		_, err := client.RunTools(t.Context(), wants, sidecall.Call{ConversationID: "c"})
		if times != want || (err == nil) != (want == 3) {
			t.Errorf("%v: sent %d times, %v", code, times, err)
		}
	}
}

func TestALoop(t *testing.T) {
	refused := func(code string) func(*sidecallv1.ExecuteToolResponse) {
		return func(r *sidecallv1.ExecuteToolResponse) {
			r.IsError, r.Error = true, &sidecallv1.ToolError{Code: code}
			r.Recovery = &sidecallv1.Recovery{RequireEscalation: true}
		}
	}
	stop := func(r *sidecallv1.ExecuteToolResponse) { r.Stop = true }
	allow := func(context.Context, *sidecall.ToolMessages) (bool, error) { return true, nil }
	once := func() func(context.Context, *sidecall.ToolMessages) (bool, error) {
		asked := 0
		return func(context.Context, *sidecall.ToolMessages) (bool, error) {
			asked++
			return asked == 1, nil // who is asked in vain would end it as an escalation
		}
	}
	for name, c := range map[string]struct {
		model    []string // what it says, the last for ever
		result   func(*sidecallv1.ExecuteToolResponse)
		escalate func(context.Context, *sidecall.ToolMessages) (bool, error)
		most     int
		reason   string
		turns    int
	}{
		"until it is done":     {model: []string{wants, done}, result: fine, reason: "end_turn", turns: 2},
		"told to stop":         {model: []string{wants}, result: stop, reason: "loop_detected", turns: 1},
		"a person is asked":    {model: []string{wants}, result: refused("LOOP_DETECTED"), reason: "escalation", turns: 1},
		"a person allows it":   {model: []string{wants, done}, result: refused("LOOP_DETECTED"), escalate: allow, reason: "end_turn", turns: 2},
		"the budget is spent":  {model: []string{wants}, result: refused("BUDGET_EXCEEDED"), escalate: once(), reason: "budget_exceeded", turns: 2},
		"it wraps up":          {model: []string{wants, done}, result: refused("BUDGET_EXCEEDED"), escalate: allow, reason: "end_turn", turns: 2},
		"turns are bounded":    {model: []string{wants}, result: fine, most: 3, reason: "max_turns", turns: 3},
		"the provider cuts it": {model: []string{strings.Replace(done, "end_turn", "max_tokens", 1)}, result: fine, reason: "max_tokens", turns: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []*sidecallv1.ExecuteToolsRequest
			client := connect(t, answering(&asked, c.result))
			turn := 0
			ended, err := client.RunLoop(t.Context(), func(_ context.Context, messages []json.RawMessage) (any, error) {
				if len(messages) != 1+2*turn {
					t.Errorf("turn %d is asked with %d messages", turn, len(messages))
				}
				said := c.model[min(turn, len(c.model)-1)]
				turn++
				return said, nil
			}, []any{map[string]string{"role": "user", "content": "hi"}}, sidecall.LoopOptions{Of: sidecall.Call{ConversationID: "c"}, MaxTurns: c.most, OnEscalation: c.escalate})
			if err != nil || ended.ExitReason != c.reason || ended.Turns != c.turns || ended.PromptID == "" {
				t.Errorf("%+v, %v", ended, err)
			}
			for _, batch := range asked {
				for _, call := range batch.GetCalls() {
					if call.GetPromptId() != ended.PromptID || call.GetTokensUsed() == 0 {
						t.Errorf("call %v of prompt %s", call, ended.PromptID)
					}
				}
			}
		})
	}
}

// A call that waits for a person ends the loop before anything answers it, or is made again.
func TestALoopThatWaitsForAPerson(t *testing.T) {
	decided := 0
	result := func(r *sidecallv1.ExecuteToolResponse) {
		if decided == 0 {
			r.IsError, r.Hold = true, &sidecallv1.Hold{Reason: "always"}
		}
	}
	for name, c := range map[string]struct {
		onHeld func(context.Context, *sidecall.ToolMessages) (bool, error)
		reason string
	}{
		"nobody waits": {nil, "held"},
		"in vain":      {func(context.Context, *sidecall.ToolMessages) (bool, error) { return false, nil }, "held"},
		"until it is allowed": {func(_ context.Context, m *sidecall.ToolMessages) (bool, error) {
			decided = len(m.Held())
			return true, nil
		}, "end_turn"},
	} {
		decided = 0
		var asked []*sidecallv1.ExecuteToolsRequest
		client, model := connect(t, answering(&asked, result)), []string{wants, done}
		ended, err := client.RunLoop(t.Context(), func(context.Context, []json.RawMessage) (any, error) {
			said := model[0]
			model = model[1:]
			return said, nil
		}, []any{map[string]string{"role": "user", "content": "hi"}}, sidecall.LoopOptions{Of: sidecall.Call{ConversationID: "c"}, OnHeld: c.onHeld})
		if err != nil || ended.ExitReason != c.reason || ended.PromptID == "" {
			t.Errorf("%s: %+v, %v", name, ended, err)
		}
		if n := len(ended.Messages); c.reason == "held" && n != 2 || c.reason != "held" && (n != 4 || decided == 0 || len(asked) != 2) {
			t.Errorf("%s: %d messages, after %d batches", name, n, len(asked))
		}
	}
}

func TestATurnWithoutAnIDHasItsPlace(t *testing.T) {
	var asked []*sidecallv1.ExecuteToolsRequest
	client := connect(t, answering(&asked, fine))
	model := []string{strings.Replace(wants, "msg_1", "", 1), strings.Replace(wants, "msg_1", "", 1), done}
	turn := 0
	_, err := client.RunLoop(t.Context(), func(context.Context, []json.RawMessage) (any, error) { turn++; return model[turn-1], nil },
		[]any{map[string]string{"role": "user", "content": "hi"}}, sidecall.LoopOptions{Of: sidecall.Call{ConversationID: "c", PromptID: "p"}})
	if err != nil || len(asked) != 2 {
		t.Fatalf("%d batches, %v", len(asked), err)
	}
	for i, want := range []string{"p/1", "p/3"} {
		if got := asked[i].GetCalls()[0].GetTurnId(); got != want {
			t.Errorf("turn %q, want %q", got, want)
		}
	}
}

func TestALoopWhoseModelIsAway(t *testing.T) {
	away := errors.New("the provider is away")
	ended, err := connect(t, fake{}).RunLoop(t.Context(), func(context.Context, []json.RawMessage) (any, error) { return nil, away }, nil,
		sidecall.LoopOptions{Of: sidecall.Call{ConversationID: "c"}})
	if !errors.Is(err, away) || ended.ExitReason != "error" {
		t.Errorf("%+v, %v", ended, err)
	}
}

// So are tools and instructions asked for.
func TestToolsAreAskedForAgainWhileTheSidecarIsAway(t *testing.T) {
	asked := 0
	client := connect(t, fake{list: func(*sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error) {
		if asked++; asked == 1 {
			return nil, status.Error(codes.Unavailable, "as the test wants it")
		}
		return &sidecallv1.ListToolsResponse{}, nil
	}})
	if _, err := client.Tools(t.Context(), sidecall.Anthropic, ""); err != nil || asked != 2 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

// Whoever does not wait for that any more is told so, and that it was away.
func TestWaitingForASidecarIsCancelled(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	client := dial(t, "tcp://127.0.0.1:1", grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			defer leave()
			return invoke(ctx, method, req, reply, conn, opts...)
		}))
	if _, err := client.Tools(ctx, sidecall.Anthropic, ""); !errors.Is(err, context.Canceled) || status.Code(err) != codes.Unavailable {
		t.Errorf("error %v", err)
	}
}

// Tools come as a provider takes them, page by page.
func TestToolsForProviders(t *testing.T) {
	client := connect(t, fake{list: func(r *sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error) {
		if r.GetPageToken() != "" {
			return &sidecallv1.ListToolsResponse{DefinitionsJson: []string{`{"name":"last"}`}}, nil
		}
		return &sidecallv1.ListToolsResponse{DefinitionsJson: []string{`{"of":"` + r.GetProvider() + ` ` + r.GetProfile() + `"}`}, NextPageToken: "more"}, nil
	}})
	got, err := client.Tools(t.Context(), sidecall.OpenAI, "code")
	if err != nil || len(got) != 2 || string(got[0]) != `{"of":"openai code"}` || string(got[1]) != `{"name":"last"}` {
		t.Errorf("%s, %v", got, err)
	}
}
