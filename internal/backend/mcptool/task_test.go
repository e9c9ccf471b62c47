package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/deadline"
)

const (
	done    = `{"content":[{"type":"text","text":"done"}]}`
	notDone = `{"content":[{"type":"text","text":"no paper"}],"isError":true}`
)

// What each end of a task proves of its call: of a tool that must not be repeated, of one whose
// failures are clean, and of one that may be repeated.
func TestWhatTheEndOfATaskProves(t *testing.T) {
	rpc := &jsonrpc.Error{Code: -32603, Message: "disk full"}
	result := func(raw string) answer { return answer{outcome: resulted, result: json.RawMessage(raw)} }
	lost := answer{outcome: unanswered}
	unknown := answer{outcome: refused, rpc: &jsonrpc.Error{Code: -32602, Message: "Task not found"}}
	const ambiguous, definite = tool.Ambiguous, tool.Definite
	for name, tt := range map[string]struct {
		task    task
		answer  *answer // to tasks/result, in 2025-11-25
		expired bool
		code    tool.Code // empty for a success
		proves  [3]tool.Evidence
	}{
		"completed":                        {task: task{Status: taskCompleted, Result: json.RawMessage(done)}},
		"completed, after its time":        {task: task{Status: taskCompleted, Result: json.RawMessage(done)}, expired: true},
		"completed, the tool failed":       {task: task{Status: taskCompleted, Result: json.RawMessage(notDone)}, code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, definite, definite}},
		"completed without its result":     {task: task{Status: taskCompleted}, code: tool.CodeInvalidOutput, proves: [3]tool.Evidence{definite, definite, definite}},
		"completed by another task":        {task: task{Status: taskCompleted, Result: json.RawMessage(`{"resultType":"task","taskId":"x"}`)}, code: tool.CodeInvalidOutput, proves: [3]tool.Evidence{ambiguous, ambiguous, ambiguous}},
		"failed":                           {task: task{Status: taskFailed, Error: rpc}, code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, definite, definite}},
		"failed, and says no more":         {task: task{Status: taskFailed}, code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, definite, definite}},
		"failed with a result":             {task: task{Status: taskFailed, Result: json.RawMessage(done)}, code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, definite, definite}},
		"failed, after its time":           {task: task{Status: taskFailed, Error: rpc}, expired: true, code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, ambiguous, definite}},
		"cancelled":                        {task: task{Status: taskCancelled}, code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, ambiguous, definite}},
		"2025: completed":                  {task: task{Status: taskCompleted}, answer: new(result(done))},
		"2025: completed, the tool failed": {task: task{Status: taskCompleted}, answer: new(result(notDone)), code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, definite, definite}},
		"2025: completed, no result":       {task: task{Status: taskCompleted}, answer: &unknown, code: tool.CodeInvalidOutput, proves: [3]tool.Evidence{definite, definite, definite}},
		"2025: completed, result lost":     {task: task{Status: taskCompleted}, answer: &lost, code: tool.CodeInvalidOutput, proves: [3]tool.Evidence{definite, definite, definite}},
		"2025: completed, too large":       {task: task{Status: taskCompleted}, answer: &answer{outcome: tooLarge, size: 1 << 30}, code: tool.CodeInvalidOutput, proves: [3]tool.Evidence{definite, definite, definite}},
		"2025: failed":                     {task: task{Status: taskFailed}, answer: new(result(notDone)), code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, definite, definite}},
		"2025: failed, says a success":     {task: task{Status: taskFailed}, answer: new(result(done)), code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, definite, definite}},
		"2025: failed by an error":         {task: task{Status: taskFailed}, answer: &answer{outcome: refused, rpc: rpc}, code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, definite, definite}},
		"2025: failed, result lost":        {task: task{Status: taskFailed}, answer: &lost, code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, definite, definite}},
		"2025: failed, after its time":     {task: task{Status: taskFailed}, answer: new(result(notDone)), expired: true, code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, ambiguous, definite}},
		"2025: cancelled":                  {task: task{Status: taskCancelled}, answer: &unknown, code: tool.CodeUnrecoverable, proves: [3]tool.Evidence{ambiguous, ambiguous, definite}},
	} {
		for i, call := range []backend.Invocation{{Effect: tool.NonIdempotent}, {Effect: tool.NonIdempotent, FailsCleanly: true}, {Effect: tool.Idempotent}} {
			var reply backend.Reply
			var f *tool.Failure
			if tt.answer != nil {
				reply, f = tt.task.settledOutcome(*tt.answer, &call, tt.expired)
			} else {
				reply, f = tt.task.outcome(&call, tt.expired)
			}
			switch {
			case tt.code == "" && (f != nil || string(reply.Text) != "done"):
				t.Errorf("%s: %q, %v", name, reply.Text, f)
			case tt.code != "" && (f == nil || f.Code != tt.code || f.Evidence != tt.proves[i]):
				t.Errorf("%s, %v: %+v, want %s, %s", name, call.Effect, f, tt.code, tt.proves[i])
			}
		}
	}
}

func TestHandles(t *testing.T) {
	for name, tt := range map[string]struct {
		raw     string
		settled bool
		want    task
	}{
		"of the extension":            {raw: `{"resultType":"task","taskId":"a","status":"working","ttlMs":60000,"pollIntervalMs":500}`, want: task{ID: "a", Status: taskWorking, TTLMs: millis(time.Minute), PollMs: millis(time.Second / 2)}},
		"of the extension, nested":    {raw: `{"resultType":"task","task":{"taskId":"a","status":"working"}}`, want: task{ID: "a", Status: taskWorking}},
		"of 2025-11-25":               {raw: `{"task":{"taskId":"a","status":"working","ttl":null,"pollInterval":0}}`, settled: true, want: task{ID: "a", Status: taskWorking}},
		"ended at once":               {raw: `{"task":{"taskId":"a","status":"completed","ttl":0}}`, settled: true, want: task{ID: "a", Status: taskCompleted}},
		"of wrong types":              {raw: `{"resultType":"task","taskId":"a","status":"working","statusMessage":7,"ttlMs":"x","pollIntervalMs":{}}`, want: task{ID: "a", Status: taskWorking}},
		"of times that there are not": {raw: `{"resultType":"task","taskId":"a","status":"working","ttlMs":-5,"pollIntervalMs":1e400}`, want: task{ID: "a", Status: taskWorking}},
	} {
		got, settled, err := handle(json.RawMessage(tt.raw))
		if err != nil || settled != tt.settled || got.ID != tt.want.ID || got.Status != tt.want.Status || got.ttl() != tt.want.ttl() || got.PollMs != tt.want.PollMs {
			t.Errorf("%s: %+v, %v, %v", name, got, settled, err)
		}
	}
	for name, raw := range map[string]string{
		"no id":           `{"resultType":"task","status":"working"}`,
		"an id of 10 MB":  `{"resultType":"task","status":"working","taskId":"` + strings.Repeat("x", 10<<20) + `"}`,
		"an id of a kind": `{"resultType":"task","status":"working","taskId":7}`,
		"no status":       `{"resultType":"task","taskId":"a"}`,
		"a new status":    `{"resultType":"task","taskId":"a","status":"paused"}`,
		"no object":       `{"task":"later"}`,
	} {
		if got, _, err := handle(json.RawMessage(raw)); err == nil {
			t.Errorf("%s is taken: %.100v", name, got)
		}
	}
}

// A server says when it wants to be asked again, within bounds, and before it may forget the task.
func TestWhenATaskIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			task  string
			after time.Duration
			want  time.Duration
		}{
			"as it says":             {task: `{"pollIntervalMs":2000}`, want: 2 * time.Second},
			"as it says, 2025":       {task: `{"pollInterval":2000}`, want: 2 * time.Second},
			"it does not say":        {task: `{}`, want: pollUsual},
			"without a pause":        {task: `{"pollIntervalMs":0}`, want: pollUsual},
			"at once":                {task: `{"pollIntervalMs":1}`, want: pollAtLeast},
			"in the past":            {task: `{"pollIntervalMs":-1000}`, want: pollUsual},
			"in 31 years":            {task: `{"pollIntervalMs":1e12}`, want: pollAtMost},
			"never":                  {task: `{"pollIntervalMs":1e300}`, want: pollAtMost},
			"before it is forgotten": {task: `{"pollIntervalMs":9000,"ttlMs":4000}`, want: 2 * time.Second},
			"nearly forgotten":       {task: `{"pollIntervalMs":9000,"ttlMs":4000}`, after: 3900 * time.Millisecond, want: pollAtLeast},
			"forgotten":              {task: `{"pollIntervalMs":9000,"ttlMs":4000}`, after: 4 * time.Second, want: 9 * time.Second},
			"kept for ever":          {task: `{"pollIntervalMs":9000,"ttlMs":1e300}`, want: 9 * time.Second},
		} {
			f := &following{since: time.Now()}
			if err := json.Unmarshal([]byte(tt.task), &f.task); err != nil {
				t.Fatal(err)
			}
			time.Sleep(tt.after)
			if got := f.wait(); got != tt.want {
				t.Errorf("%s: in %s, want %s", name, got, tt.want)
			}
			if f.ttl() < 0 || f.ttl() > math.MaxInt64/2+1 {
				t.Errorf("%s: it lives for %d", name, f.ttl())
			}
		}
	})
}

// taskSite is a server whose tool "slow" is a task.
type taskSite struct {
	*site
	settled bool

	mu sync.Mutex
	// states are the answers to tasks/get, the last again and again; result is that to tasks/result.
	states []string
	result string
	// fault answers a request in another way; false where it does not.
	fault func(w http.ResponseWriter, method string) bool
	heard []taskRequest
}

// taskRequest is one that a taskSite has had.
type taskRequest struct {
	Method string `json:"method"`
	Params struct {
		Name      string                     `json:"name"`
		TaskID    string                     `json:"taskId"`
		Task      json.RawMessage            `json:"task"`
		Responses map[string]json.RawMessage `json:"inputResponses"`
		Meta      map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
	ID     json.RawMessage `json:"id"`
	header http.Header
}

func newTaskSite(t *testing.T, settled bool, states ...string) *taskSite {
	t.Helper()
	s := &taskSite{site: newSite(t, mcp.StreamableHTTPOptions{Stateless: !settled}), settled: settled, states: states, result: done}
	s.before(s.serve)
	return s
}

func (s *taskSite) serve(w http.ResponseWriter, req *http.Request, body string) bool {
	var r taskRequest
	if json.Unmarshal([]byte(body), &r) != nil || !strings.HasPrefix(r.Method, "tasks/") && r.Method != methodCall && !(s.settled && r.Method == "tools/list") {
		return false
	}
	r.header = req.Header
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, r)
	if s.fault != nil && s.fault(w, r.Method) {
		return true
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, s.answer(r))
	return true
}

// answer is the result of a request, for whoever holds the lock.
func (s *taskSite) answer(r taskRequest) string {
	switch r.Method {
	case "tools/list":
		return `{"tools":[{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},
			{"name":"either","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}`
	case methodCall:
		if s.settled && r.Params.Task == nil {
			return done
		}
		if s.settled {
			return `{"task":{"taskId":"täsk 1","status":"working","ttl":60000,"pollInterval":1}}`
		}
		return `{"resultType":"task","taskId":"täsk 1","status":"working","ttlMs":60000,"pollIntervalMs":1}`
	case methodTaskGet:
		state := s.states[0]
		if len(s.states) > 1 {
			s.states = s.states[1:]
		}
		return strings.Replace(state, "{", `{"resultType":"complete","taskId":"täsk 1","pollInterval":1,"pollIntervalMs":1,`, 1)
	case methodTaskResult:
		return s.result
	default:
		return `{"resultType":"complete"}`
	}
}

// requests are those of a method until now.
func (s *taskSite) requests(method string) (of []taskRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.heard), func(r taskRequest) bool { return r.Method != method })
}

func (s *taskSite) run(t *testing.T, handsOn ...string) *running {
	t.Helper()
	cfg := s.config(t)
	cfg.HandsOn = handsOn
	if !s.settled {
		cfg.Protocol = newestProtocol
	}
	r := run(t, cfg)
	r.up()
	return r
}

// forms are the two forms of tasks.
var forms = map[string]bool{"2025-11-25": true, "2026-07-28": false}

func TestATaskIsFollowedToItsEnd(t *testing.T) {
	for name, settled := range forms {
		t.Run(name, func(t *testing.T) {
			s := newTaskSite(t, settled, `{"status":"working","statusMessage":"half way"}`, `{"status":"completed","result":`+done+`}`)
			r := s.run(t)
			var notes []string
			reply, f := r.Invoke(t.Context(), backend.Invocation{Target: "slow", Progress: func(sign backend.Sign) { notes = append(notes, sign.Note) }})
			if f != nil || string(reply.Text) != "done" {
				t.Errorf("%q, %+v", reply.Text, f)
			}
			if want := []string{"half way", "completed"}; !slices.Equal(notes, want) {
				t.Errorf("heard %q, want %q", notes, want)
			}
			gets, calls, results := s.requests(methodTaskGet), s.requests(methodCall), s.requests(methodTaskResult)
			if len(gets) != 2 || len(calls) != 1 || (len(results) == 1) != settled {
				t.Errorf("asked %d times, called %d, results %d", len(gets), len(calls), len(results))
			}
			for _, get := range gets {
				if get.Params.TaskID != "täsk 1" || !settled && get.header.Get(nameHeader) != "=?base64?dMOkc2sgMQ==?=" {
					t.Errorf("asked for %q, by %q", get.Params.TaskID, get.header.Get(nameHeader))
				}
			}
			s.told(t, calls[0])
		})
	}
}

// told looks at what a call has said of tasks.
func (s *taskSite) told(t *testing.T, call taskRequest) {
	t.Helper()
	if (call.Params.Task != nil) != s.settled {
		t.Errorf("the call is asked for as a task: %s", call.Params.Task)
	}
	can := string(call.Params.Meta[mcp.MetaKeyClientCapabilities])
	if !s.settled && !strings.Contains(can, `"`+tasksExtension+`":{}`) {
		t.Errorf("the client can %s", can)
	}
}

// What a client of the newest revision can is handed on, and that tasks are followed besides.
func TestTheClientsCapabilitiesAreKept(t *testing.T) {
	for can, want := range map[string]string{
		`{"elicitation":{"form":{}}}`:            `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
		`{"extensions":{"com.x/y":{"n":1e400}}}`: `{"extensions":{"com.x/y":{"n":1e400},"io.modelcontextprotocol/tasks":{}}}`,
		`{"extensions":7}`:                       `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
		`null`:                                   `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`,
	} {
		got, err := withTasks(json.RawMessage(can))
		if encoded, _ := json.Marshal(got); err != nil || string(encoded) != want {
			t.Errorf("%s becomes %s, %v", can, encoded, err)
		}
	}
	if _, err := withTasks(json.RawMessage(`[]`)); err == nil {
		t.Error("a list is taken for capabilities")
	}
}

// A tool that leaves it open is called plainly; one that must be a task says how long it is to live.
func TestOnlyWhatMustBeATaskIsOne(t *testing.T) {
	s := newTaskSite(t, true, `{"status":"completed"}`)
	r := s.run(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, target := range []string{"either", "slow"} {
		if reply, f := r.Invoke(ctx, backend.Invocation{Target: target}); f != nil || string(reply.Text) != "done" {
			t.Errorf("%s: %q, %+v", target, reply.Text, f)
		}
	}
	calls := s.requests(methodCall)
	var wish struct{ TTL int64 }
	if calls[0].Params.Task != nil || json.Unmarshal(calls[1].Params.Task, &wish) != nil {
		t.Fatalf("%s, %s", calls[0].Params.Task, calls[1].Params.Task)
	}
	if wish.TTL <= time.Hour.Milliseconds() || wish.TTL > (time.Hour+ttlSpare).Milliseconds() {
		t.Errorf("a call of an hour wants a task of %d ms", wish.TTL)
	}
}

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
		"too long":        `{"jsonrpc":"2.0","id":%s,"result":{"taskId":"täsk 1","status":"working","statusMessage":"` + strings.Repeat("x", maxQuestion) + `"}}`,
	} {
		for form, settled := range forms {
			t.Run(name+", "+form, func(t *testing.T) {
				s := newTaskSite(t, settled)
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
			wantFailure(t, f, tool.CodeTimeout, tool.Ambiguous, errorTypeTimeout)
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
