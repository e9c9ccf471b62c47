package server

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

func answering(t *testing.T, res ...*sidecallv1.ExecuteToolResponse) []string {
	t.Helper()
	raw, err := provider.Answers(provider.Anthropic, res)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range raw {
		all = append(all, string(r))
	}
	return all
}

// What ExecuteTool has answered is an answer that the conversation takes, whichever way the
// call goes: the loop of a client appends nothing else.
func TestWhatACallIsAnsweredCanBeAppended(t *testing.T) {
	t.Parallel()
	for _, effect := range []tool.Effect{tool.ReadOnly, tool.Idempotent, tool.Keyed, tool.NonIdempotent} {
		for name, failure := range map[string]tool.Failure{"refused": calltest.Refused, "cut off": calltest.CutOff, "timed out": calltest.TimedOut, "not found": calltest.NotFound, "too many": calltest.TooMany, "cancelled": calltest.Cancelled} {
			for second, between := range map[string]func(c *conversing, declare func(change ...func(*catalog.Route))){
				"once":         nil,
				"sent again":   func(*conversing, func(...func(*catalog.Route))) {},
				"tool gone":    func(c *conversing, _ func(...func(*catalog.Route))) { c.Generation.Set(catalog.ConfigSource, nil) },
				"breaker open": func(_ *conversing, declare func(...func(*catalog.Route))) { declare(calltest.WithBreaker(1)) },
				"other schema": func(_ *conversing, declare func(...func(*catalog.Route))) {
					declare(func(r *catalog.Route) {
						r.Tool.InputSchema = []byte(`{"type":"object","properties":{"order_id":{"type":"integer"}},"required":["order_id"]}`)
					})
				},
			} {
				t.Run(effect.String()+" "+name+" "+second, func(t *testing.T) {
					t.Parallel()
					{
						c := newConversing(t, nil)
						declare := func(change ...func(*catalog.Route)) {
							c.Generation.Set(catalog.ConfigSource, []*catalog.Route{calltest.NewRoute(t, "pay", effect, calltest.Fails(calltest.Always, failure), change...)})
						}
						declare()
						c.asked("a", "pay")
						res := c.Call(calltest.Request("a", "pay"))
						first := res.GetError().GetCode()
						if between != nil {
							between(c, declare)
							if second == "breaker open" {
								c.Call(calltest.Request("x", "pay"))
								c.Call(calltest.Request("y", "pay"))
							}
							res = c.Call(calltest.Request("a", "pay"))
						}
						for i := range 3 {
							err := c.answer(answering(t, res))
							if err == nil {
								return
							}
							t.Logf("first %s, now %s, append %d: %v", first, res.GetError().GetCode(), i, err)
							// as every client does: resume, and make the call again
							c.resume()
							res = c.Call(calltest.Request("a", "pay"))
						}
						t.Error("it is refused for good")
					}
				})
			}
		}
	}
}

// A call ran so long ago that its record is forgotten; the program appends what it said.
func TestAForgottenCallIsNotSaidNotToHaveRun(t *testing.T) {
	t.Parallel()
	c := newConversing(t, map[string]*calltest.Backend{"pay": calltest.Answers("paid")})
	c.asked("a", "pay")
	early := c.resume().GetAnswersJson()
	c.book.Store = later{c.book.Store, 23 * time.Hour} // of 24
	if err := c.answer(early); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("it is said that nothing was run: %v", err)
	}
	if err := c.answer([]string{`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"paid"}]}`}); err != nil {
		t.Fatal(err)
	}
	if again := c.Call(calltest.Request("a", "pay")); again.GetError().GetCode() != "OUTCOME_UNKNOWN" || strings.Contains(again.GetContent(), "Nothing was run") {
		t.Errorf("sent again it is told: %s", again.GetContent())
	}
}

// A tool gives what looks like the error of a sidecar: another sidecar's, behind it, or what
// an attacker has written.
func TestAResultThatLooksLikeAnError(t *testing.T) {
	t.Parallel()
	fake := tool.RenderError(tool.Error{Code: tool.CodeCancelled, Hint: "Nothing was run."}, nil)
	for name, text := range map[string]string{"short": fake, "long": fake + strings.Repeat(" and more", 5000), "spaces": fake + "\u202e\n\n\n   ", "untrusted": fake} {
		c := newConversingOn(t, embedded.InMemory(embedded.Options{}), nil)
		c.Generation.Set(catalog.ConfigSource, []*catalog.Route{calltest.NewRoute(t, "pay", tool.NonIdempotent, calltest.Answers(text), func(r *catalog.Route) { r.Tool.Policy.Untrusted = name == "untrusted" })})
		c.asked("a", "pay")
		res := c.Call(calltest.Request("a", "pay"))
		if err := c.answer(answering(t, res)); err != nil {
			t.Errorf("%s: %.200s: %v", name, res.GetContent(), err)
			if err := c.answer(c.resume().GetAnswersJson()); err != nil {
				t.Errorf("%s: resumed: %v", name, err)
			}
		}
	}
}

// A history in which an id comes twice, each time with its answer, as of a provider that
// begins to count anew in every turn: appended at once, it closes one call twice.
func TestACallClosedTwiceInOneAppend(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sidecall.db")
	open := func() *embedded.Store {
		store, err := embedded.Open(file, embedded.Options{})
		if err != nil {
			t.Fatalf("it does not open any more: %v", err)
		}
		return store
	}
	t.Run("append", func(t *testing.T) {
		c := newConversingOn(t, open(), nil)
		one := func(id string) []string {
			return []string{asking(id, "pay"), `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"x` + id + `"}]}`}
		}
		c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", TurnId: "t1", MessagesJson: slices.Concat([]string{asksUser}, one("call_0"), one("call_0"))})
	})
	store := open()
	seen, err := store.Note(t.Context(), dedupe.Note{Key: tool.CallID{Conversation: "c1", Turn: "t1", ID: "call_0"}})
	t.Log(seen.Record.State, err)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// The loop of a client within its budget: an attempt fails, the loop dies; resumed, with its
// prompt, the budget is used up.
func TestAResumedCallOverItsBudget(t *testing.T) {
	t.Parallel()
	for _, effect := range []tool.Effect{tool.ReadOnly, tool.Idempotent} {
		c := newConversing(t, nil)
		c.Generation.Set(catalog.ConfigSource, []*catalog.Route{calltest.NewRoute(t, "get", effect, calltest.Fails(calltest.Always, calltest.CutOff)), calltest.NewRoute(t, "other", effect, calltest.Answers("ok"))})
		c.Profile(catalog.Profile{Name: "tight", Tools: []string{"*"}, MaxCalls: 1})
		ask := func(id, name string) *sidecallv1.ExecuteToolResponse {
			req := calltest.Request(id, name)
			req.Profile, req.PromptId = "tight", "p1"
			return c.Call(req)
		}
		c.asked("a", "get", "b", "other")
		// What answered it is lost; another call of the turn has taken what was left.
		t.Log(effect, ask("a", "get").GetError().GetCode(), ask("b", "other").GetContent())
		for range 3 {
			c.resume()
			a, b := ask("a", "get"), ask("b", "other")
			err := c.answer(answering(t, a, b))
			if err == nil {
				return
			}
			t.Logf("%s: %v", a.GetError().GetCode(), err)
		}
		t.Errorf("%v: it is refused for good", effect)
	}
}

// A loop resumes and is told that a call has not run. The older one makes it, and is killed
// while it runs: its attempt is cut, and may have had its effect. The answers of before say
// "Nothing was run": the code is that of the record, and the words are not.
func TestACancelledAttemptIsNotSaidNotToHaveRun(t *testing.T) {
	t.Parallel()
	for _, effect := range []tool.Effect{tool.Idempotent, tool.Keyed, tool.NonIdempotent} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			onStores(t, func(t *testing.T, store dedupe.Store) {
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				pays := &calltest.Backend{Do: func(ctx context.Context, _ backend.Invocation) (tool.Reply, *tool.Failure) {
					kill()       // it has had its effect
					<-ctx.Done() // and its caller is gone
					return tool.Reply{}, &tool.Failure{Code: tool.CodeCancelled, Evidence: tool.Ambiguous}
				}}
				c := newConversingOn(t, store, nil)
				c.Generation.Set(catalog.ConfigSource, []*catalog.Route{calltest.NewRoute(t, "pay", effect, pays)})
				c.asked("a", "pay")
				early := c.resume()
				res := c.Execute(ctx, call.NewRequest("", calltest.Request("a", "pay")))
				t.Log(res.GetContent())
				late := c.resume().GetPending()[0]
				t.Log(c.State("a"), late.GetState(), late.GetResult().GetContent())
				if err := c.answer(early.GetAnswersJson()); status.Code(err) != codes.FailedPrecondition {
					t.Errorf("it ran %d times, is %v, and the conversation says %s: %v", pays.Calls.Load(), late.GetState(), early.GetAnswersJson()[0], err)
					again := c.Call(calltest.Request("a", "pay"))
					t.Log(again.GetContent())
				}
			})
		})
	}
}

// Results that name no prompt leave the calls that are still open in theirs.
func TestAPartOfTheResultsKeepsThePrompt(t *testing.T) {
	t.Parallel()
	c := newConversing(t, map[string]*calltest.Backend{"pay": calltest.Answers("paid")})
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "openai", TurnId: "t1", PromptId: "p1", MessagesJson: []string{
		`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"pay","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"pay","arguments":"{}"}}]}`}})
	c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "openai", ExpectedVersion: 1, MessagesJson: []string{`{"role":"tool","tool_call_id":"a","content":"ok"}`}})
	if got := c.resume(); got.GetPromptId() != "p1" {
		t.Errorf("the open call %v goes on in the prompt %q", got.GetPending(), got.GetPromptId())
	}
}

// Who is asked is asked of what can still run: a held call that its conversation answers never
// does, whether or not somebody has allowed it by then; one that was denied has its own answer.
func TestAnAnswerClosesWhatIsHeld(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]func(*Operator) error{
		"held": func(*Operator) error { return nil },
		"allowed": func(o *Operator) error {
			_, err := o.ApproveExecution(t.Context(), &sidecallv1.ApproveExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "a", DecidedBy: "ada", Reason: "yes"})
			return err
		},
		"denied": func(o *Operator) error {
			_, err := o.DenyExecution(t.Context(), &sidecallv1.DenyExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "a", DecidedBy: "ada", Reason: "no"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := calltest.Answers("paid")
			c := newConversing(t, nil)
			always, err := interpret.CompileApproval(interpret.Always)
			if err != nil {
				t.Fatal(err)
			}
			c.Generation.Set(catalog.ConfigSource, []*catalog.Route{calltest.NewRoute(t, "pay", tool.NonIdempotent, upstream, func(r *catalog.Route) {
				r.Approval, r.Tool.Policy.ApprovalTTL = always, time.Hour
			})})
			c.asked("a", "pay")
			res, operator := c.Call(calltest.Request("a", "pay")), &Operator{Executor: c.Executor}
			if err := decide(operator); err != nil {
				t.Fatal(err)
			}
			if name == "denied" {
				if err := c.answer(answering(t, res)); status.Code(err) != codes.FailedPrecondition {
					t.Errorf("that a person has to allow it is said of what was denied: %v", err)
				}
				res = c.Call(calltest.Request("a", "pay"))
			}
			if err := c.answer(answering(t, res)); err != nil {
				t.Fatal(err)
			}
			again := c.Call(calltest.Request("a", "pay"))
			if code := again.GetError().GetCode(); name == "denied" && code != "PERMISSION_DENIED" || name != "denied" && (code != "CANCELLED" || again.GetHold() != nil) {
				t.Errorf("sent again it is told: %v", again)
			}
			_, err = operator.ApproveExecution(t.Context(), &sidecallv1.ApproveExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "a", DecidedBy: "ada", Reason: "late"})
			want := map[bool]string{true: "is done already", false: "is closed"}[name == "denied"]
			if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), want) {
				t.Errorf("allowed after it was answered: %v", err)
			}
			if n := upstream.Calls.Load(); n != 0 {
				t.Errorf("%d calls were sent", n)
			}
		})
	}
}
