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
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
)

// taskSite is a server whose tool "slow" is a task.
type taskSite struct {
	*site
	settled bool
	limit   int // of a message; 0 is the usual

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
	cfg.HandsOn, cfg.MaxMessage = handsOn, s.limit
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
