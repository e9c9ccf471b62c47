package server

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// manyCalls is a message that calls look so many times.
func manyCalls(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`{"type":"function_call","call_id":"c%d","name":"look","arguments":"{\"order_id\":\"A-%d\"}"}`, i, i)
	}
	return `{"object":"response","output":[` + strings.Join(items, ",") + `]}`
}

func manyLabels(n int) map[string]string {
	labels := make(map[string]string, n)
	for i := range n {
		labels[fmt.Sprint(i)] = ""
	}
	return labels
}

// Tokens are never fewer than none, which a program could not report.
func TestTokensBeyondAllCounting(t *testing.T) {
	read, err := service(calltest.New(t)).ReadMessage(t.Context(), &sidecallv1.ReadMessageRequest{
		MessageJson: `{"type":"message","role":"assistant","content":[],"usage":{"input_tokens":9223372036854775807,"output_tokens":9223372036854775807,"cache_read_input_tokens":-1}}`,
	})
	if err != nil || read.GetTokens() != math.MaxInt64 {
		t.Errorf("%v, %v", read, err)
	}
}

// What is wrong with what the calls share is said once, for the program.
func TestWhatCallsShareIsRefusedOnce(t *testing.T) {
	var heard []backend.Invocation
	s := service(calltest.New(t, calltest.NewRoute(t, "look", tool.ReadOnly, hearing(&heard))))
	for field, shared := range map[string]*sidecallv1.ExecuteToolRequest{
		"shared.conversation_id": {},
		"shared.turn_id":         {ConversationId: "c1", TurnId: strings.Repeat("x", 257)},
		"shared.prompt_id":       {ConversationId: "c1", PromptId: "\xff"},
		"shared.labels":          {ConversationId: "c1", Labels: manyLabels(17)},
		"shared.tokens_used":     {ConversationId: "c1", TokensUsed: -1},
	} {
		_, err := s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{MessageJson: manyCalls(2), Shared: shared})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), field+": ") || len(heard) != 0 {
			t.Errorf("%s: %v, %d calls were made", field, err, len(heard))
		}
	}
}

// The turn of a message that says none is its id: what is wrong with that is the message's fault.
func TestTheIDOfAMessageIsNoTurn(t *testing.T) {
	s := service(calltest.New(t))
	long := fmt.Sprintf(`{"id":"%0257d","type":"message","role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","input":{}}]}`, 1)
	_, err := s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{MessageJson: long, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "message_json.id: ") {
		t.Error(err)
	}
}

// What the calls share was in memory once for each of them.
func TestWhatCallsShareIsInMemoryOnce(t *testing.T) {
	s := service(calltest.New(t))
	shared := &sidecallv1.ExecuteToolRequest{ConversationId: "c1", Labels: manyLabels(10_000)}
	req := &sidecallv1.RunMessageRequest{MessageJson: manyCalls(provider.MaxCalls), Shared: shared}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := s.RunMessage(t.Context(), req); err == nil {
		t.Error("10,000 labels are taken")
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("it took %d MB", used>>20)
	}
}

// However many calls a batch may have, the results of a message have room in common.
func TestAllResultsOfAMessageFitTogether(t *testing.T) {
	long := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return tool.Reply{Blocks: []tool.Block{{Type: "image", MIMEType: "image/png", Data: make([]byte, 1<<20)}}}, nil
	}}
	sidecar := calltest.New(t, calltest.NewRoute(t, "look", tool.ReadOnly, long))
	sidecar.Limit(func(l *catalog.Limits) { l.MaxBatch = 1 })
	res, err := service(sidecar).RunMessage(t.Context(), &sidecallv1.RunMessageRequest{
		MessageJson: manyCalls(8), Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}, MaxResponseBytes: 1 << 40,
	})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, one := range res.GetResults() {
		size += proto.Size(one)
	}
	if len(res.GetResults()) != 8 || size > result.MostBytes {
		t.Errorf("%d results have %d bytes", len(res.GetResults()), size)
	}
}

// Nothing begins beside a call of a sequential tool that goes on without its caller, also
// where the message has more calls than a batch.
func TestSequentialCallsOfALongMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		slow := &calltest.Backend{Do: func(ctx context.Context, _ backend.Invocation) (tool.Reply, *tool.Failure) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(5 * time.Second)
			return tool.Reply{Text: []byte("ok")}, nil
		}}
		sidecar := calltest.New(t, calltest.NewRoute(t, "look", tool.NonIdempotent, slow, func(r *catalog.Route) { r.Tool.Policy.Sequential = true }))
		sidecar.Limit(func(l *catalog.Limits) { l.MaxBatch = 1 })
		ctx, leave := context.WithTimeout(t.Context(), 2*time.Second)
		defer leave()
		_, err := service(sidecar).RunMessage(ctx, &sidecallv1.RunMessageRequest{
			MessageJson: manyCalls(3), Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"},
		})
		if err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if n := most.Load(); n != 1 {
			t.Errorf("%d ran at a time", n)
		}
	})
}

// Whatever little a client says that it can receive, it is told as much as has to be said.
func TestAClientThatReceivesLittle(t *testing.T) {
	long := &calltest.Backend{Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		return tool.Reply{Text: []byte(strings.Repeat("x", 10_000))}, nil
	}}
	s := service(calltest.New(t, calltest.NewRoute(t, "look", tool.ReadOnly, long)))
	ask := func(most int64) (*sidecallv1.RunMessageResponse, error) {
		return s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{
			MessageJson: manyCalls(2), Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1", TurnId: fmt.Sprint(most)}, MaxResponseBytes: most,
		})
	}
	for _, most := range []int64{1, 3, 100} {
		if res, err := ask(most); err != nil || len(res.GetMessagesJson()) != 2 || proto.Size(res) > 4*briefBytes {
			t.Errorf("with %d bytes: %d bytes, %v", most, proto.Size(res), err)
		}
	}
	if res, err := ask(-1); status.Code(err) != codes.InvalidArgument {
		t.Errorf("with -1: %v, %v", res, err)
	}
}

// A message that could not be answered runs nothing: the provider would take no result for
// it, and of two calls with one id nobody knew which is meant.
func TestAMessageThatCannotBeAnsweredRunsNothing(t *testing.T) {
	var heard []backend.Invocation
	s := service(calltest.New(t, calltest.NewRoute(t, "look", tool.NonIdempotent, hearing(&heard))))
	chat := func(ids ...string) string {
		for i, id := range ids {
			ids[i] = `{"id":` + id + `,"function":{"name":"look","arguments":"{\"order_id\":\"A-1\"}"}}`
		}
		return `{"role":"assistant","tool_calls":[` + strings.Join(ids, ",") + `]}`
	}
	look := `{"type":"function_call","call_id":"a","name":"look","arguments":"{\"order_id\":\"A-1\"}"}`
	for name, message := range map[string]string{
		"no id":             chat(`"a"`, `""`),
		"a null id":         chat(`"a"`, `null`),
		"an id twice":       chat(`"a"`, `"b"`, `"a"`),
		"an id in items":    `{"object":"response","output":[` + look + `,{"type":"message"},` + look + `]}`,
		"an overlong id":    chat(`"` + strings.Repeat("x", 257) + `"`),
		"half a character":  chat(`"\ud800"`),
		"a control":         chat(`"a\u0000"`),
		"a computer":        `{"object":"response","output":[` + look + `,{"type":"computer_call","call_id":"b"}]}`,
		"a shell":           `{"object":"response","output":[` + look + `,{"type":"local_shell_call","call_id":"b"}]}`,
		"a shell of its":    `{"object":"response","output":[` + look + `,{"type":"shell_call","call_id":"b","environment":{"type":"local"}}]}`,
		"a patch":           `{"object":"response","output":[` + look + `,{"type":"apply_patch_call","call_id":"b"}]}`,
		"a search":          `{"object":"response","output":[` + look + `,{"type":"tool_search_call","execution":"client","call_id":"b"}]}`,
		"a function of old": `{"role":"assistant","content":null,"function_call":{"name":"look","arguments":"{}"}}`,
		"very many items":   `{"object":"response","output":[` + strings.Repeat(`{},`, provider.MaxItems) + look + `]}`,
	} {
		shared := &sidecallv1.ExecuteToolRequest{ConversationId: "c1", TurnId: name}
		res, err := s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{MessageJson: message, Shared: shared})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "desc = message_json: ") || len(heard) != 0 {
			t.Errorf("%s: %v, %v, %d calls were made", name, res, err, len(heard))
		}
	}
}

// Of a response that has not ended well nothing runs, whatever has become of it.
func TestAResponseThatIsNotCompletedRunsNothing(t *testing.T) {
	var heard []backend.Invocation
	s := service(calltest.New(t, calltest.NewRoute(t, "look", tool.NonIdempotent, hearing(&heard))))
	for _, state := range []string{"failed", "cancelled", "in_progress", "queued", "incomplete"} {
		for _, message := range []string{
			`{"object":"response","status":"` + state + `","output":[{"type":"function_call","call_id":"a","name":"look","arguments":"{\"order_id\":\"A-1\"}"}]}`,
			`{"object":"response","status":"completed","output":[{"type":"function_call","status":"` + state + `","call_id":"a","name":"look","arguments":"{\"order_id\":\"A-1\"}"}]}`,
		} {
			shared := &sidecallv1.ExecuteToolRequest{ConversationId: "c1", TurnId: state}
			res, err := s.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{MessageJson: message, Shared: shared})
			if err != nil || len(heard) != 0 || len(res.GetMessagesJson()) != 1 || !res.GetResults()[0].GetIsError() {
				t.Errorf("%s: %v, %v, %d calls were made", state, res, err, len(heard))
			}
		}
	}
}

// Reading the open calls of a conversation takes a place, as loading it does, and what
// they hold while they run is counted.
func TestOpenCallsTakeRoom(t *testing.T) {
	var heard []backend.Invocation
	c := newConversing(t, map[string]*calltest.Backend{"pay": hearing(&heard)})
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", TurnId: "t1", MessagesJson: []string{asksUser, asking("a", "pay")}})
	s := &Service{Executor: c.Executor, loads: make(chan struct{}, 1)}
	open := &sidecallv1.RunMessageRequest{OpenAtVersion: 2, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}}
	s.loads <- struct{}{}
	gone, leave := context.WithCancel(t.Context())
	leave()
	none := &sidecallv1.RunMessageRequest{OpenAtVersion: 2, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "none"}}
	if _, err := s.RunMessage(gone, none); status.Code(err) != codes.Canceled {
		t.Errorf("where others load: %v", err)
	}
	<-s.loads
	s.bytes = limit.NewBytes(10)
	var others limit.Load
	others.Of(s.bytes)
	others.Take(1)
	if _, err := s.RunMessage(t.Context(), open); status.Code(err) != codes.ResourceExhausted || len(heard) != 0 {
		t.Errorf("without room: %v, %d calls were made", err, len(heard))
	}
	s.bytes = limit.NewBytes(1 << 20)
	if res, err := s.RunMessage(t.Context(), open); err != nil || len(res.GetResults()) != 1 || len(heard) != 1 || s.bytes.Held() != 0 {
		t.Errorf("with room: %v, %v, %d bytes are held", res, err, s.bytes.Held())
	}
}

// A version that cannot be is the program's mistake, and another one is told by its name.
func TestVersionsOfOpenCalls(t *testing.T) {
	c := newConversing(t, nil)
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", MessagesJson: []string{asksUser}})
	for version, code := range map[int64]codes.Code{-1: codes.InvalidArgument, 2: codes.Aborted} {
		_, err := c.tools.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{OpenAtVersion: version, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}})
		if status.Code(err) != code || !strings.Contains(err.Error(), "open_at_version: ") {
			t.Errorf("%d: %v", version, err)
		}
	}
}

// The open calls of a conversation are those of its tenant alone.
func TestOpenCallsOfAnotherTenant(t *testing.T) {
	var heard []backend.Invocation
	c := newConversing(t, map[string]*calltest.Backend{"pay": hearing(&heard)})
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", TurnId: "t1", MessagesJson: []string{asksUser, asking("a", "pay")}})
	s, other := service(c.Sidecar), context.WithValue(t.Context(), tenantKey{}, "other")
	_, err := s.RunMessage(other, &sidecallv1.RunMessageRequest{OpenAtVersion: 2, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}})
	if status.Code(err) != codes.NotFound || len(heard) != 0 {
		t.Errorf("%v, %d calls were made", err, len(heard))
	}
}

// Two programs that go on with one conversation run its calls once.
func TestOpenCallsRunOnceForAll(t *testing.T) {
	var ran atomic.Int64
	c := newConversing(t, map[string]*calltest.Backend{"pay": {Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		ran.Add(1)
		return tool.Reply{Text: []byte("ok")}, nil
	}}})
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", TurnId: "t1", MessagesJson: []string{asksUser, asking("a", "pay", "b", "pay")}})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := c.tools.RunMessage(t.Context(), &sidecallv1.RunMessageRequest{OpenAtVersion: 2, Shared: &sidecallv1.ExecuteToolRequest{ConversationId: "c1"}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if ran.Load() != 2 {
		t.Errorf("they ran %d times", ran.Load())
	}
}

// What is said of a message is short, whatever stands in it.
func TestFaultsOfAMessageAreShort(t *testing.T) {
	s := service(calltest.New(t))
	long := strings.Repeat("x", 1<<20)
	for name, message := range map[string]string{
		"a role": `{"role":"` + long + `"}`,
		"a name": `{"` + long + `": [1 2]}`,
		"a type": `{"role":"assistant","tool_calls":[{"id":"a","type":"` + long + `"}]}`,
	} {
		if _, err := s.ReadMessage(t.Context(), &sidecallv1.ReadMessageRequest{MessageJson: message}); err == nil || len(err.Error()) > 2*mostFault {
			t.Errorf("%s: %d bytes are said", name, len(err.Error()))
		}
	}
	c := newConversing(t, nil)
	twice := `{"role":"user","` + long + `":1,"` + long + `":2}`
	_, err := c.conversations.AppendMessages(t.Context(), &sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", MessagesJson: []string{twice}})
	if status.Code(err) != codes.InvalidArgument || len(err.Error()) > 2*mostFault {
		t.Errorf("of a message that is kept %d bytes are said", len(fmt.Sprint(err)))
	}
	message := `{"object":"response","status":"incomplete","incomplete_details":{"reason":"` + long + `"},"output":[]}`
	if read, err := s.ReadMessage(t.Context(), &sidecallv1.ReadMessageRequest{MessageJson: message}); err != nil || read.GetCut() != "incomplete" {
		t.Errorf("%d bytes of why it was cut, %v", len(read.GetCut()), err)
	}
}

// A result that is told in short still says how the loop may go on.
func TestWhatIsToldInShortSaysHowToGoOn(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	made := &turn{format: provider.OpenAI, results: []*sidecallv1.ExecuteToolResponse{brief(&sidecallv1.ExecuteToolResponse{
		ToolUseId: "a", Outcome: sidecallv1.Outcome_OUTCOME_ERROR, IsError: true, Content: long, Error: &sidecallv1.ToolError{Code: "LOOP_DETECTED", Hint: long},
		Recovery: &sidecallv1.Recovery{Class: sidecallv1.RecoveryClass_RECOVERY_CLASS_GUARD, RequireEscalation: true, Context: long, SuggestedArgumentsJson: long},
	})}}
	res, err := made.response()
	if err != nil || !res.GetRequireEscalation() || res.GetResults()[0].GetRecovery().GetClass() != sidecallv1.RecoveryClass_RECOVERY_CLASS_GUARD || proto.Size(res) > 3*briefBytes {
		t.Errorf("%v, %v", res, err)
	}
}
