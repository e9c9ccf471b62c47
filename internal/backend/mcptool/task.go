package mcptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// A task is work that goes on after the answer to its tools/call, which is a handle to ask for it
// by. There are two forms. In 2025-11-25 a client asks for one, and tasks/result has the result;
// in the extension of 2026-07-28 the server decides, and tasks/get has it.

const (
	tasksExtension   = "io.modelcontextprotocol/tasks"
	methodTaskGet    = "tasks/get"
	methodTaskResult = "tasks/result"
	methodTaskUpdate = "tasks/update"
	methodTaskCancel = "tasks/cancel"
	// maxTaskID bounds the id of a task, in bytes.
	maxTaskID = 1 << 10
)

// Statuses of a task. The last three are its end.
const (
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskFailed        = "failed"
	taskCancelled     = "cancelled"
)

const (
	errorTypeTaskLost      = "task_lost"
	errorTypeTaskCancelled = "task_cancelled"
)

// task is what a server says of one.
type task struct {
	ID      string `json:"taskId"`
	Status  string `json:"status"`
	Message string `json:"statusMessage"`
	// TTL and Poll are of 2025-11-25, the other two of the extension.
	TTL    millis `json:"ttl"`
	Poll   millis `json:"pollInterval"`
	TTLMs  millis `json:"ttlMs"`
	PollMs millis `json:"pollIntervalMs"`
	// Result is of one that has completed, Error of one that has failed, and InputRequests of one
	// that asks, in the extension.
	Result        json.RawMessage `json:"result"`
	Error         *jsonrpc.Error  `json:"error"`
	InputRequests json.RawMessage `json:"inputRequests"`
}

// millis is a time in milliseconds; 0 is any that cannot be one.
type millis time.Duration

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (m *millis) UnmarshalJSON(data []byte) error {
	const most = math.MaxInt64 / float64(time.Millisecond) / 2
	var n float64
	if json.Unmarshal(data, &n) == nil && n > 0 {
		*m = millis(min(n, most) * float64(time.Millisecond))
	}
	return nil
}

// readTask reads what a server says of a task. What is of the wrong type is taken for missing.
func readTask(raw json.RawMessage) (t task, err error) {
	err = json.Unmarshal(raw, &t)
	if _, loose := errors.AsType[*json.UnmarshalTypeError](err); loose {
		err = nil
	}
	switch {
	case err != nil:
		return t, err
	case t.ID == "" || len(t.ID) > maxTaskID:
		return t, fmt.Errorf("the id of a task has 1 to %d bytes, not %d", maxTaskID, len(t.ID))
	case t.Status != taskWorking && t.Status != taskInputRequired && !t.ended():
		return t, fmt.Errorf("there is no status %q of a task", clip(t.Status))
	}
	return t, nil
}

// handle reads the answer to a tools/call that is a handle. settled says that it is of 2025-11-25.
func handle(raw json.RawMessage) (t task, settled bool, err error) {
	var outer struct {
		ResultType any             `json:"resultType"`
		Task       json.RawMessage `json:"task"`
	}
	if err := json.Unmarshal(raw, &outer); err != nil {
		return t, false, err
	}
	settled = outer.ResultType == nil
	if len(outer.Task) > 0 {
		raw = outer.Task
	}
	t, err = readTask(raw)
	return t, settled, err
}

// isHandle reports that a result is a handle.
func isHandle(a answer) bool {
	if a.outcome != resulted {
		return false
	}
	r, err := parse(a.result)
	return err == nil && r.kind() == resultTask
}

func (t task) ended() bool {
	return t.Status == taskCompleted || t.Status == taskFailed || t.Status == taskCancelled
}

func (t task) ttl() time.Duration { return time.Duration(max(t.TTL, t.TTLMs)) }

// says is what there is to tell of a task.
func (t task) says() string {
	if t.Message != "" {
		return clip(t.Message)
	}
	return t.Status
}

// outcome is what a task that has ended proves of its call, in the extension. expired says that its
// time to live was over: a server may then call it failed, which is no word of the tool.
func (t task) outcome(call *backend.Invocation, expired bool) (tool.Reply, *tool.Failure) {
	switch {
	case t.Status == taskCancelled:
		return tool.Reply{}, t.cutShort(call, errorTypeTaskCancelled, "the server has cancelled the task of this call, which may have had its effect")
	case t.Status == taskFailed && expired:
		return tool.Reply{}, t.cutShort(call, errorTypeTaskLost, "the task of this call has outlived its time, and its server says no more of it")
	case t.Status == taskFailed && t.Error != nil:
		return tool.Reply{}, rpcFailure(t.Error, call)
	case t.Status == taskFailed:
		return tool.Reply{}, t.failed(call)
	case len(t.Result) == 0 || string(t.Result) == "null":
		return tool.Reply{}, unreadable(tool.Definite, "the task of this call has completed, and its server has no result of it", nil)
	default:
		return read(answer{outcome: resulted, result: t.Result}, *call)
	}
}

// settledOutcome is the same in 2025-11-25, where a is the answer to tasks/result.
func (t task) settledOutcome(a answer, call *backend.Invocation, expired bool) (tool.Reply, *tool.Failure) {
	switch {
	case t.Status == taskCancelled || t.Status == taskFailed && expired:
		return t.outcome(call, expired)
	case t.Status == taskFailed && a.outcome == resulted:
		if reply, failure := read(a, *call); failure == nil {
			return reply, toolFailure(reply, call)
		}
		return read(a, *call)
	case t.Status == taskFailed && a.rpc != nil:
		return tool.Reply{}, rpcFailure(a.rpc, call)
	case t.Status == taskFailed:
		return tool.Reply{}, t.failed(call)
	case t.Status == taskCompleted && a.outcome != resulted && a.outcome != tooLarge:
		return tool.Reply{}, unreadable(tool.Definite, "the task of this call has completed, and its server does not hand its result out", a.err)
	default:
		return read(a, *call)
	}
}

// failed is a task of which its server says only that it has failed.
func (t task) failed(call *backend.Invocation) *tool.Failure {
	return call.OwnWord(&tool.Failure{
		Code: tool.CodeUnrecoverable, Message: clip(t.Message), ErrorType: "tool_error", CallerFault: true,
		Constraint: "the task of this call has failed",
	})
}

// cutShort is a task that was ended by somebody else than its tool: how cleanly that fails by
// itself says nothing of it.
func (t task) cutShort(call *backend.Invocation, errorType, why string) *tool.Failure {
	word := backend.Invocation{Effect: call.Effect}
	return word.OwnWord(&tool.Failure{Code: tool.CodeUnrecoverable, Message: clip(t.Message), ErrorType: errorType, Constraint: why})
}

// lostTask is a task of which its server says nothing any more, or nothing that can be read.
func lostTask(why string, err error) *tool.Failure {
	f := unreadable(tool.Ambiguous, "the tool was started as a task, and "+why, err)
	f.ErrorType = errorTypeTaskLost
	return f
}
