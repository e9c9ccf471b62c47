package server

import (
	"context"
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// stores are those on which what a conversation says is tested; the end-to-end tests add
// Redis.
var stores = map[string]func(t *testing.T) dedupe.Store{
	"memory": func(*testing.T) dedupe.Store { return embedded.InMemory(embedded.Options{}) },
	"embedded": func(t *testing.T) dedupe.Store {
		store, err := embedded.Open(filepath.Join(t.TempDir(), "sidecall.db"), embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return store
	},
}

func onStores(t *testing.T, test func(t *testing.T, store dedupe.Store)) {
	t.Helper()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// asked appends a user's message and the calls of the model.
func (c *conversing) asked(calls ...string) {
	c.T.Helper()
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", TurnId: "t1", MessagesJson: []string{asksUser, asking(calls...)}})
}

func (c *conversing) resume() *sidecallv1.ResumeConversationResponse {
	c.T.Helper()
	res, err := c.conversations.ResumeConversation(c.T.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1"})
	if err != nil {
		c.T.Fatal(err)
	}
	return res
}

// answer appends what answers the open calls of a conversation with one message before.
func (c *conversing) answer(messages []string) error {
	_, err := c.conversations.AppendMessages(c.T.Context(), &sidecallv1.AppendMessagesRequest{
		ConversationId: "c1", Provider: "anthropic", ExpectedVersion: 2, MessagesJson: messages,
	})
	return err
}

// A loop has appended its calls, and is slow; another resumes and tells the model that
// nothing was run. Then the first one's request arrives: it does not run.
func TestACallThatItsConversationHasAnsweredNeverRuns(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store dedupe.Store) {
		pays := calltest.Answers("paid")
		c := newConversingOn(t, store, map[string]*calltest.Backend{"pay": pays})
		c.asked("a", "pay")
		resumed := c.resume()
		if got := resumed.GetPending()[0]; got.GetState() != sidecallv1.Pending_PENDING_NOT_RUN {
			t.Fatal(got)
		}
		if err := c.answer(resumed.GetAnswersJson()); err != nil {
			t.Fatal(err)
		}
		for _, args := range []string{`{"order_id":"A-1"}`, `{"order_id":"other"}`, `{`, `{"order_id":3}`} {
			req := calltest.Request("a", "pay")
			req.ArgumentsJson = args
			res := c.Call(req)
			if res.GetError().GetCode() != "CANCELLED" || !res.GetReplayed() || res.GetContent() != resumed.GetPending()[0].GetResult().GetContent() {
				t.Errorf("%s: %v", args, res)
			}
		}
		if n := pays.Calls.Load(); n != 0 {
			t.Errorf("it ran %d times", n)
		}
		ran, err := c.tools.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "a"})
		if err != nil || ran.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_CLOSED {
			t.Errorf("%v, %v", ran, err)
		}
	})
}

// The same the other way round: what has run meanwhile is not answered with "nothing was
// run", and resumed once more it is told with its result.
func TestACallThatHasRunIsNotAnsweredOtherwise(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store dedupe.Store) {
		c := newConversingOn(t, store, map[string]*calltest.Backend{"pay": calltest.Answers("paid"), "lose": calltest.Fails(calltest.Always, calltest.CutOff)})
		c.asked("a", "pay", "b", "lose")
		early := c.resume()
		c.Call(calltest.Request("a", "pay"))
		c.Call(calltest.Request("b", "lose"))
		if err := c.answer(early.GetAnswersJson()); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%v", err)
		}
		if late := c.resume(); late.GetVersion() != 2 || late.GetPending()[0].GetState() != sidecallv1.Pending_PENDING_DONE || late.GetPending()[1].GetState() != sidecallv1.Pending_PENDING_UNKNOWN {
			t.Errorf("%v", late)
		} else if err := c.answer(late.GetAnswersJson()); err != nil {
			t.Error(err)
		}
	})
}

// What a program says in its own words is its own.
func TestAProgramAnswersInItsOwnWords(t *testing.T) {
	t.Parallel()
	for _, words := range []string{`"the user has stopped it"`, `[{"type":"text","text":"{\"code\":\"NONE\"}"}]`, `""`, `[]`, `null`} {
		c := newConversing(t, map[string]*calltest.Backend{"pay": calltest.Answers("paid")})
		c.asked("a", "pay", "b", "pay")
		c.Call(calltest.Request("a", "pay"))
		if err := c.answer([]string{`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":` + words + `},{"type":"tool_result","tool_use_id":"b","content":` + words + `}]}`}); err != nil {
			t.Errorf("%s: %v", words, err)
		}
		if res := c.Call(calltest.Request("a", "pay")); res.GetContent() != "paid" {
			t.Errorf("%s: what has run: %v", words, res)
		}
		if res := c.Call(calltest.Request("b", "pay")); res.GetError().GetCode() != "CANCELLED" {
			t.Errorf("%s: what has not: %v", words, res)
		}
	}
}

// An answer is looked at in every format, as a text and in blocks.
func TestAnswersOfAllFormatsAreLookedAt(t *testing.T) {
	t.Parallel()
	said := tool.RenderError(tool.Error{Code: tool.CodeCancelled, Hint: "Nothing was run."}, nil)
	text := mustJSON(t, said)
	for format, messages := range map[string][]string{
		"anthropic":        {asking("a", "pay"), `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":` + text + `}]}]}`},
		"openai":           {`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"pay","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"a","content":` + text + `}`},
		"openai-responses": {`{"type":"function_call","call_id":"a","name":"pay","arguments":"{}"}`, `{"type":"function_call_output","call_id":"a","output":` + text + `}`},
	} {
		c := newConversing(t, map[string]*calltest.Backend{"pay": calltest.Answers("paid")})
		c.Call(calltest.Request("a", "pay"))
		// In one append with the call, too.
		_, err := c.conversations.AppendMessages(t.Context(), &sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: format, TurnId: "t1", MessagesJson: messages})
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: %v", format, err)
		}
		if _, err := c.conversations.LoadConversation(t.Context(), &sidecallv1.LoadConversationRequest{ConversationId: "c1"}); status.Code(err) != codes.NotFound {
			t.Errorf("%s: something was appended: %v", format, err)
		}
	}
}

// An attempt has run and its answer is lost. Whatever its tool is declared as since, no
// one says that nothing was run.
func TestWhatMayHaveRunIsToldAsThatByAll(t *testing.T) {
	t.Parallel()
	otherSchema := func(r *catalog.Route) {
		r.Tool.InputSchema = json.RawMessage(`{"type":"object","properties":{"order_id":{"type":"string"},"reason":{"type":"string"}},"required":["order_id","reason"]}`)
	}
	same := func(*catalog.Route) {}
	for _, was := range []tool.Effect{tool.ReadOnly, tool.Idempotent, tool.Keyed} {
		for name, now := range map[string]struct {
			effect tool.Effect
			change func(*catalog.Route)
			runs   bool
		}{
			"as it was":                        {was, same, true},
			"as non_idempotent":                {tool.NonIdempotent, same, false},
			"as non_idempotent, other schema":  {tool.NonIdempotent, otherSchema, false},
			"with its effect and other schema": {was, otherSchema, false},
		} {
			t.Run(was.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				onStores(t, func(t *testing.T, store dedupe.Store) {
					c := newConversingOn(t, store, nil)
					declare := func(effect tool.Effect, b *calltest.Backend, change func(*catalog.Route)) {
						c.Generation.Set(catalog.ConfigSource, []*catalog.Route{calltest.NewRoute(t, "pay", effect, b, change)})
					}
					declare(was, calltest.Fails(calltest.Always, calltest.CutOff), same)
					c.asked("a", "pay")
					early := c.resume().GetAnswersJson()
					c.Call(calltest.Request("a", "pay"))
					pays := calltest.Answers("paid")
					declare(now.effect, pays, now.change)

					resumed := c.resume()
					pending := resumed.GetPending()[0]
					if pending.GetState() != sidecallv1.Pending_PENDING_UNKNOWN || !pending.GetResult().GetRecorded() || pending.GetResult().GetError().GetCode() != "OUTCOME_UNKNOWN" {
						t.Errorf("resumed: %v", pending)
					}
					if strings.Contains(resumed.GetAnswersJson()[0], "Nothing was run") {
						t.Errorf("answered: %s", resumed.GetAnswersJson()[0])
					}
					if err := c.answer(early); status.Code(err) != codes.FailedPrecondition {
						t.Errorf("the answers of before it ran: %v", err)
					}
					res := c.Call(calltest.Request("a", "pay"))
					switch repeated := pays.Calls.Load() > 0; {
					case repeated != now.runs:
						t.Errorf("it was repeated: %v", repeated)
					case now.effect == tool.NonIdempotent && res.GetError().GetCode() != "OUTCOME_UNKNOWN",
						was == tool.Keyed && !now.runs && res.GetError().GetCode() != "OUTCOME_UNKNOWN":
						t.Errorf("sent again: %v", res)
					}
					ran, err := c.tools.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "a"})
					if want := now.effect == tool.NonIdempotent; err != nil || (ran.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN) != want {
						t.Errorf("GetExecution: %v, %v", ran, err)
					}
				})
			})
		}
	}
}

// A loop that sends a lost call again while its breaker is open has that for an answer, if
// it does no harm that the model calls anew; else the conversation stays as it is.
func TestALostCallThatCannotBeRepeatedNow(t *testing.T) {
	t.Parallel()
	open := tool.RenderError(tool.Error{Code: tool.CodeCircuitOpen}, nil)
	for effect, want := range map[tool.Effect]codes.Code{
		tool.ReadOnly: codes.OK, tool.Idempotent: codes.OK, tool.Keyed: codes.FailedPrecondition, tool.NonIdempotent: codes.FailedPrecondition,
	} {
		c := newConversing(t, nil)
		c.Generation.Set(catalog.ConfigSource, []*catalog.Route{calltest.NewRoute(t, "pay", effect, calltest.Fails(calltest.Always, calltest.TimedOut))})
		c.asked("a", "pay")
		c.Call(calltest.Request("a", "pay"))
		if err := c.answer([]string{`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":` + mustJSON(t, open) + `}]}`}); status.Code(err) != want {
			t.Errorf("%v: %v", effect, err)
		}
	}
}

// One that is running is waited for, and not answered: by its caller's own words neither.
func TestARunningCallIsWaitedFor(t *testing.T) {
	t.Parallel()
	running, end := make(chan struct{}), make(chan struct{})
	c := newConversing(t, map[string]*calltest.Backend{"pay": {Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
		close(running)
		<-end
		return tool.Reply{Text: []byte("paid")}, nil
	}}})
	waiting := limit.NewBulkhead(1)
	c.Executor.Waiting = waiting
	c.asked("a", "pay")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Call(calltest.Request("a", "pay"))
	}()
	<-running
	answered := make(chan error, 1)
	go func() {
		answered <- c.answer([]string{`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"it takes too long"}]}`})
	}()
	// It waits in a place of its own.
	for len(answered) == 0 && waiting.InFlight() == 0 {
		runtime.Gosched()
	}
	close(end)
	<-ended
	if err := <-answered; status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "running") {
		t.Errorf("%v", err)
	}
	if got := c.resume().GetPending(); len(got) != 1 || got[0].GetState() != sidecallv1.Pending_PENDING_DONE {
		t.Errorf("%v", got)
	}
}
