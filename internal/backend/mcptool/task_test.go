package mcptool

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
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
			var reply tool.Reply
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
