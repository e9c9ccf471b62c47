package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/deadline"
)

// Whatever a server answers in place of a task, the call ends, and is no success.
func TestATaskThatIsLost(t *testing.T) {
	rpc := func(code int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%%s,"error":{"code":%d,"message":"Task not found"}}`, code)
	}
	for name, body := range map[string]string{
		"unknown":         rpc(-32602),
		"no such method":  rpc(-32601),
		"of another call": `{"jsonrpc":"2.0","id":%s,"result":{"taskId":"other","status":"completed","result":` + done + `}}`,
		"without its id":  `{"jsonrpc":"2.0","id":%s,"result":{"status":"completed","result":` + done + `}}`,
		"in a new status": `{"jsonrpc":"2.0","id":%s,"result":{"taskId":"täsk 1","status":"done","result":` + done + `}}`,
		"a plain result":  `{"jsonrpc":"2.0","id":%s,"result":` + done + `}`,
		"no object":       `{"jsonrpc":"2.0","id":%s,"result":7}`,
		"too large":       `{"jsonrpc":"2.0","id":%s,"result":{"taskId":"täsk 1","status":"completed","result":"` + strings.Repeat("x", 1<<20) + `"}}`,
		"too long":        `{"jsonrpc":"2.0","id":%s,"result":{"taskId":"täsk 1","status":"working","statusMessage":"` + strings.Repeat("x", maxQuestion) + `"}}`,
	} {
		for form, settled := range forms {
			t.Run(name+", "+form, func(t *testing.T) {
				s := newTaskSite(t, settled)
				s.limit = 1 << 20
				r := s.run(t)
				s.mu.Lock()
				s.fault = func(w http.ResponseWriter, method string) bool {
					if method != methodTaskGet {
						return false
					}
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, body, s.heard[len(s.heard)-1].ID)
					return true
				}
				s.mu.Unlock()
				_, f := r.call("slow", `{}`)
				wantFailure(t, f, tool.CodeInvalidOutput, tool.Ambiguous, errorTypeTaskLost)
				if strings.Contains(f.Constraint, "Task not found") || (f.Message == "Task not found") != strings.Contains(body, "error") {
					t.Errorf("the server's words: %q in %q", f.Message, f.Constraint)
				}
				if n := len(s.requests(methodTaskGet)); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		}
	}
}

// A handle is asked again where the answer was lost, and its tool is not called again.
func TestATaskIsAskedForAgainAfterALostConnection(t *testing.T) {
	for form, settled := range forms {
		for name, fault := range map[string]func(t *testing.T, w http.ResponseWriter){
			"cut off": func(t *testing.T, w http.ResponseWriter) {
				conn, _ := hijack(t, w)
				conn.Close()
			},
			"a bad gateway": func(_ *testing.T, w http.ResponseWriter) { http.Error(w, "bad gateway", http.StatusBadGateway) },
			"too often":     func(_ *testing.T, w http.ResponseWriter) { http.Error(w, "slowly", http.StatusTooManyRequests) },
		} {
			t.Run(form+", "+name, func(t *testing.T) {
				s := newTaskSite(t, settled, `{"status":"working"}`, `{"status":"completed","result":`+done+`}`)
				r := s.run(t)
				s.mu.Lock()
				seen := map[string]int{}
				s.fault = func(w http.ResponseWriter, method string) bool {
					if seen[method]++; !strings.HasPrefix(method, "tasks/") || seen[method] != 1 {
						return false
					}
					fault(t, w)
					return true
				}
				s.mu.Unlock()
				if got := r.want("slow", `{}`); got != "done" {
					t.Errorf("got %q", got)
				}
				if n := len(s.requests(methodCall)); n != 1 {
					t.Errorf("called %d times", n)
				}
			})
		}
	}
}

// A call is heard of at one session at a time: the one that its task is asked at.
func TestACallIsHeardOfWhereItsTaskIs(t *testing.T) {
	caller := new(answering)
	notes := 0
	one, two := newSession(), newSession()
	h := &hearing{call: &backend.Invocation{Caller: caller, Progress: func(backend.Sign) { notes++ }}, token: "t"}
	note := json.RawMessage(`{"progressToken":"t","progress":1}`)
	h.at(one)
	if one.only() != caller || two.only() != nil {
		t.Error("it is heard of elsewhere")
	}
	h.at(two)
	h.at(two)
	one.progressed(note)
	two.progressed(note)
	if one.only() != nil || two.only() != caller || notes != 1 {
		t.Errorf("moved: heard of %d times", notes)
	}
	h.stop()
	two.progressed(note)
	if two.only() != nil || notes != 1 {
		t.Error("it is heard of after its end")
	}
}

// What a server asks after a call was given up may be about that: the caller of another is not asked.
func TestACallThatWasGivenUpAsksNobodyElse(t *testing.T) {
	asked := func(r *running) backend.Caller {
		h := &hearing{call: &backend.Invocation{Caller: new(answering)}}
		h.at(r.state.Load().session)
		defer h.stop()
		return r.state.Load().session.only()
	}
	s := newTaskSite(t, true, `{"status":"working"}`)
	r := s.run(t)
	ctx, leave := context.WithCancel(t.Context())
	if _, f := r.Invoke(ctx, backend.Invocation{Target: "slow", Progress: func(backend.Sign) { leave() }}); f == nil || asked(r) != nil {
		t.Errorf("a task that was left: %v, and another caller is asked", f)
	}
	for name, ends := range map[string]bool{"answered": true, "given up": false} {
		ctx, leave := context.WithCancel(t.Context())
		s := newSite(t, mcp.StreamableHTTPOptions{})
		s.before(func(w http.ResponseWriter, req *http.Request, body string) bool {
			if strings.Contains(body, methodCall) && !ends {
				leave()
				<-req.Context().Done()
				return true
			}
			return false
		})
		r := run(t, s.config(t))
		r.up()
		_, _ = r.Invoke(ctx, backend.Invocation{Target: "echo", Args: json.RawMessage(`{"text":"x"}`)})
		if (asked(r) != nil) != ends {
			t.Errorf("%s: another caller is asked: %v", name, !ends)
		}
		leave()
	}
}

// A session that its server forgets does not cost the task.
func TestATaskOutlivesItsSession(t *testing.T) {
	s := newTaskSite(t, true, `{"status":"working"}`, `{"status":"working"}`, `{"status":"completed"}`)
	r := s.run(t)
	first := r.current()
	s.mu.Lock()
	forgotten := false
	s.fault = func(w http.ResponseWriter, method string) bool {
		if method != methodTaskGet || forgotten {
			return false
		}
		forgotten = true
		http.Error(w, "session not found", http.StatusNotFound)
		return true
	}
	s.mu.Unlock()
	if got := r.want("slow", `{}`); got != "done" {
		t.Errorf("got %q", got)
	}
	if r.current() == first {
		t.Error("there is no new session")
	}
	if n := len(s.requests(methodCall)); n != 1 {
		t.Errorf("called %d times", n)
	}
}

// The task ends with its call: the server is told, and nobody knows what came of it.
func TestATaskIsCancelledWithItsCall(t *testing.T) {
	for name, settled := range forms {
		t.Run(name, func(t *testing.T) {
			s := newTaskSite(t, settled, `{"status":"working"}`)
			r := s.run(t)
			ctx, cancel := context.WithCancel(t.Context())
			_, f := r.Invoke(ctx, backend.Invocation{Target: "slow", Progress: func(backend.Sign) { cancel() }})
			wantFailure(t, f, tool.CodeCancelled, tool.Ambiguous, "cancelled")
			waitFor(t, "the task is cancelled", func() bool { return len(s.requests(methodTaskCancel)) == 1 })
			if id := s.requests(methodTaskCancel)[0].Params.TaskID; id != "täsk 1" {
				t.Errorf("cancelled %q", id)
			}
		})
	}
}

// A task whose backend is closed is let go, and nobody knows what came of it.
func TestATaskEndsWithItsBackend(t *testing.T) {
	s := newTaskSite(t, false, `{"status":"working"}`)
	r := s.run(t)
	closed := make(chan error, 1)
	var once sync.Once
	_, f := r.Invoke(t.Context(), backend.Invocation{Target: "slow", Progress: func(backend.Sign) {
		once.Do(func() { go func() { closed <- r.Close(context.Background()) }() })
	}})
	wantFailure(t, f, tool.CodeDependencyUnavailable, tool.Ambiguous, "connection_lost")
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// A status that never ends costs one question per interval, and ends with the call's time.
func TestATaskThatNeverEnds(t *testing.T) {
	for name, settled := range forms {
		t.Run(name, func(t *testing.T) {
			s := newTaskSite(t, settled, `{"status":"working","result":`+done+`,"statusMessage":"`+strings.Repeat("x", 100<<10)+`"}`)
			r := s.run(t)
			ctx, pass := deadline.On()
			heard := 0
			_, f := r.Invoke(ctx, backend.Invocation{Target: "slow", Progress: func(sign backend.Sign) {
				if len(sign.Note) > maxMessage {
					t.Errorf("a note of %d bytes", len(sign.Note))
				}
				if heard++; heard == 3 {
					pass()
				}
			}})
			wantFailure(t, f, tool.CodeTimeout, tool.Ambiguous, backend.ErrorTypeTimeout)
			if n := len(s.requests(methodTaskGet)); n != 3 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// What a task asks for is asked of the caller, once, and answered.
func TestATaskAsks(t *testing.T) {
	asks := `{"status":"input_required","inputRequests":{"q1":{"method":"elicitation/create","params":{"message":"how many?"}}}}`
	s := newTaskSite(t, false, asks, asks, `{"status":"completed","result":`+done+`}`)
	r := s.run(t, "elicitation")
	caller := &answering{answer: `{"action":"accept","content":{"n":3}}`}
	reply, f := r.Invoke(t.Context(), backend.Invocation{Target: "slow", Caller: caller})
	if f != nil || string(reply.Text) != "done" {
		t.Errorf("%q, %+v", reply.Text, f)
	}
	if want := []string{`elicitation/create {"message":"how many?"}`}; !slices.Equal(caller.questions, want) {
		t.Errorf("the caller was asked %q", caller.questions)
	}
	updates := s.requests(methodTaskUpdate)
	if len(updates) != 2 || string(updates[0].Params.Responses["q1"]) != caller.answer || string(updates[1].Params.Responses["q1"]) != caller.answer {
		t.Errorf("the server was told %+v", updates)
	}
}

// answering is a caller who has one answer.
type answering struct {
	answer    string
	questions []string
}

func (*answering) Progressed(backend.Sign)      {}
func (*answering) Said(string, json.RawMessage) {}
func (a *answering) Asked(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	a.questions = append(a.questions, method+" "+string(params))
	return json.RawMessage(a.answer), nil
}

// A task that asks where nobody can be asked is given up and cancelled, and the failure says why.
func TestATaskAsksNobody(t *testing.T) {
	ask := func(method string) string {
		return `{"status":"input_required","inputRequests":{"q1":{"method":"` + method + `"}}}`
	}
	for name, tt := range map[string]struct {
		state   string
		handsOn []string
		caller  backend.Caller
	}{
		"no caller":             {state: ask(methodElicit), handsOn: []string{"elicitation"}},
		"not what is let ask":   {state: ask(methodSample), handsOn: []string{"elicitation"}, caller: new(answering)},
		"nothing that is known": {state: ask("roots/list"), handsOn: []string{"elicitation"}, caller: new(answering)},
		"nothing":               {state: `{"status":"input_required"}`, handsOn: []string{"elicitation"}, caller: new(answering)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTaskSite(t, false, tt.state)
			r := s.run(t, tt.handsOn...)
			_, f := r.Invoke(t.Context(), backend.Invocation{Target: "slow", Caller: tt.caller, FailsCleanly: true})
			wantFailure(t, f, tool.CodeUnrecoverable, tool.Ambiguous, errorTypeInput)
			waitFor(t, "the task is cancelled", func() bool { return len(s.requests(methodTaskCancel)) == 1 })
			if c, ok := tt.caller.(*answering); ok && len(c.questions) > 0 {
				t.Errorf("the caller was asked %q", c.questions)
			}
		})
	}
}

// In 2025-11-25 a task that asks is waited for by its result, on whose stream it asks.
func TestATaskOf2025Asks(t *testing.T) {
	s := newTaskSite(t, true, `{"status":"input_required"}`)
	if got := s.run(t).want("slow", `{}`); got != "done" {
		t.Errorf("got %q", got)
	}
	if gets, results := len(s.requests(methodTaskGet)), len(s.requests(methodTaskResult)); gets != 1 || results != 1 {
		t.Errorf("asked %d times, for its result %d times", gets, results)
	}
}

// A result that is lost is asked for again, and never forgets that the task has completed.
func TestTheResultOfATaskIsLost(t *testing.T) {
	s := newTaskSite(t, true, `{"status":"completed"}`)
	r := s.run(t)
	ctx, pass := deadline.On()
	s.mu.Lock()
	lost := 0
	s.fault = func(w http.ResponseWriter, method string) bool {
		if method != methodTaskResult {
			return false
		}
		if lost++; lost == 3 {
			pass()
		}
		http.Error(w, "bad gateway", http.StatusBadGateway)
		return true
	}
	s.mu.Unlock()
	_, f := r.Invoke(ctx, backend.Invocation{Target: "slow", Effect: tool.NonIdempotent})
	wantFailure(t, f, tool.CodeInvalidOutput, tool.Definite, "invalid_output")
	if gets := len(s.requests(methodTaskGet)); gets != 1 {
		t.Errorf("asked %d times how it is", gets)
	}
	if cancels := len(s.requests(methodTaskCancel)); cancels != 0 {
		t.Errorf("a task that has ended was cancelled %d times", cancels)
	}
}
