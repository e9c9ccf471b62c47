package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/identity"
	"github.com/sidecall/sidecall/internal/mcpresult"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// pollAfter is how long a client is to wait before it asks for a task.
	pollAfter = time.Second
	// metaTask is where a handle stands in a result on its way through the library, which has none.
	metaTask = "dev.sidecall/task"

	methodTaskGet    = "tasks/get"
	methodTaskUpdate = "tasks/update"
	methodTaskCancel = "tasks/cancel"
)

var taskMethods = []string{methodTaskGet, methodTaskUpdate, methodTaskCancel}

// handle is the id of a task. It is the record of a call, so that nothing else has to be kept.
type handle struct {
	Conversation string `json:"conversation,omitempty"`
	Turn         string `json:"turn,omitempty"`
	ID           string `json:"id"`
	// Claim is that of the record when the handle was given. Nobody makes it up who knows only what
	// a call is called.
	Claim string `json:"claim"`
}

func handleOf(of named, known *sidecallv1.Execution) handle {
	return handle{Conversation: of.Conversation, Turn: of.Turn, ID: of.ToolUse, Claim: claimOf(known)}
}

// is reports that a call is that of the handle.
func (h handle) is(of identity.Call) bool {
	return of.ToolUse == h.ID && of.Conversation == h.Conversation && of.Turn == h.Turn
}

// claimOf is a hash of when a call was claimed, and by which process.
func claimOf(known *sidecallv1.Execution) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", known.GetStartedAt().AsTime().UnixNano(), known.GetOwner()))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// taskParams are those of each method that is about a task. What it asked for is answered in a round
// of its call, so the answers that a client has for it are not looked at.
type taskParams struct {
	sdk.ParamsBase
	TaskID string `json:"taskId"`
}

// taskResult is a task, or what its client is told of it.
type taskResult struct {
	sdk.ResultBase
	ResultType    string              `json:"resultType"`
	TaskID        string              `json:"taskId"`
	Status        string              `json:"status"`
	StatusMessage string              `json:"statusMessage,omitempty"`
	CreatedAt     time.Time           `json:"createdAt"`
	LastUpdatedAt time.Time           `json:"lastUpdatedAt"`
	TTL           *int64              `json:"ttlMs"` // null: as long as its record is kept
	Poll          int64               `json:"pollIntervalMs"`
	Result        *sdk.CallToolResult `json:"result,omitempty"`
	Error         *jsonrpc.Error      `json:"error,omitempty"`
}

// acknowledged says that a request was heard.
type acknowledged struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

// as is a task by the record of its call.
func (h handle) as(known *sidecallv1.Execution) *taskResult {
	res, began := known.GetResult(), known.GetStartedAt().AsTime()
	t := &taskResult{ResultType: "complete", TaskID: sealed(h), CreatedAt: began, LastUpdatedAt: began, Poll: pollAfter.Milliseconds()}
	if known.GetFinishedAt() != nil {
		t.LastUpdatedAt = known.GetFinishedAt().AsTime()
	}
	failed := func(err error) {
		t.Status = "failed"
		if !errors.As(err, &t.Error) {
			t.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
		}
		t.StatusMessage = t.Error.Message
	}
	switch state := known.GetState(); {
	case state == sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED:
		t.Status = "working"
	case res == nil:
		failed(fmt.Errorf("%s: the call has no result; sent again under its id, it is answered with what is known of it", resultless[state]))
	case res.GetInputRequiredJson() != "":
		failed(errors.New("the tool asks for input: send tools/call again under the id of the call, which is answered with what it asks"))
	case res.GetError().GetCode() == "UNKNOWN_TOOL":
		failed(unknownTool(res.GetError()))
	case res.GetError().GetCode() == "CANCELLED":
		t.Status, t.StatusMessage = "cancelled", res.GetError().GetConstraint()
	default:
		t.Status, t.Result = "completed", mcpresult.Of(res)
	}
	return t
}

// resultless is what a call is that has ended without a result.
var resultless = map[sidecallv1.ExecutionState]string{
	sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN: "OUTCOME_UNKNOWN: it may or may not have had its effect",
	sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN: "it has not run",
	sidecallv1.ExecutionState_EXECUTION_STATE_HELD:    "a person has to allow it first",
	sidecallv1.ExecutionState_EXECUTION_STATE_CLOSED:  "its conversation has answered it instead",
	sidecallv1.ExecutionState_EXECUTION_STATE_DONE:    "it has run",
}

// takesTasks reports that a request says that its client takes tasks.
func takesTasks(session *sdk.ServerSession, meta map[string]any) bool {
	capabilities, _ := meta[sdk.MetaKeyClientCapabilities].(map[string]any)
	extensions, _ := capabilities["extensions"].(map[string]any)
	return isStateless(session) && extensions[tasksExtension] != nil
}

// handed is a handle in the place of a result, as far as the library takes one.
func handed(t *taskResult) *sdk.CallToolResult {
	t.ResultType = "task"
	return &sdk.CallToolResult{Meta: sdk.Meta{metaTask: t}}
}

// unwrapped is a result as its client gets it.
func unwrapped(result sdk.Result) sdk.Result {
	if called, ok := result.(*sdk.CallToolResult); ok {
		if task, ok := called.Meta[metaTask].(*taskResult); ok {
			return task
		}
	}
	return result
}

// servesTasks has the server answer what is about tasks.
func (f *face) servesTasks() error {
	return errors.Join(
		sdk.AddReceivingCustomMethod(f.server, methodTaskGet, func(ctx context.Context, session *sdk.ServerSession, params *taskParams) (*taskResult, error) {
			h, known, err := f.task(ctx, session, params)
			if err != nil {
				return nil, err
			}
			return h.as(known), nil
		}),
		sdk.AddReceivingCustomMethod(f.server, methodTaskUpdate, func(ctx context.Context, session *sdk.ServerSession, params *taskParams) (*acknowledged, error) {
			_, _, err := f.task(ctx, session, params)
			return &acknowledged{ResultType: "complete"}, err
		}),
		sdk.AddReceivingCustomMethod(f.server, methodTaskCancel, func(ctx context.Context, session *sdk.ServerSession, params *taskParams) (*acknowledged, error) {
			h, _, err := f.task(ctx, session, params)
			if err == nil {
				f.tasks.cancel(h.is)
			}
			return &acknowledged{ResultType: "complete"}, err
		}),
	)
}

// errNoTasks is the error of a method that a revision does not have.
var errNoTasks = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the revision of the client has no such method"}

// task finds the record that a handle is.
func (f *face) task(ctx context.Context, session *sdk.ServerSession, params *taskParams) (h handle, known *sidecallv1.Execution, err error) {
	unknown := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "taskId: there is no such task of this caller, or it is forgotten"}
	switch {
	case !isStateless(session):
		return h, nil, errNoTasks
	case !takesTasks(session, params.GetMeta()):
		return h, nil, &jsonrpc.Error{
			Code: sdk.CodeMissingRequiredClientCapabilities, Message: "the client does not say that it takes tasks",
			Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`),
		}
	case !unsealed(params.TaskID, &h) || h.ID == "":
		return h, nil, unknown
	}
	known, err = named{Call: identity.Call{ToolUse: h.ID, Conversation: h.Conversation, Turn: h.Turn}}.execution(ctx, f.options.Tools)
	switch code := status.Code(err); {
	case code == codes.NotFound || code == codes.InvalidArgument || err == nil && claimOf(known) != h.Claim:
		return h, nil, unknown
	case err != nil:
		return h, nil, rpcError(err)
	}
	return h, known, nil
}

// codeHeaderMismatch is the error of a request whose headers say something else than its body.
const codeHeaderMismatch = -32020

// misnamed answers a request about a task whose header names another one, or none. The library looks
// only at the methods that it knows.
func misnamed(w http.ResponseWriter, req *http.Request) bool {
	if req.Method != http.MethodPost || !slices.Contains(taskMethods, req.Header.Get("Mcp-Method")) {
		return false
	}
	body, err := io.ReadAll(req.Body) // from memory
	req.Body = io.NopCloser(bytes.NewReader(body))
	var of struct {
		ID     json.RawMessage `json:"id"`
		Params struct {
			TaskID string `json:"taskId"`
		} `json:"params"`
	}
	if err != nil || json.Unmarshal(body, &of) != nil || of.ID == nil || of.Params.TaskID == req.Header.Get("Mcp-Name") {
		return false // which the library answers
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": of.ID, "error": jsonrpc.Error{ // a client that has left hears nothing
		Code: codeHeaderMismatch, Message: "header mismatch: Mcp-Name is not the taskId of the request",
	}})
	return true
}
