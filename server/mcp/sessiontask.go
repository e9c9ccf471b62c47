package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/mcpresult"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Tasks of 2025-11-25: a client asks for one, call by call, and gets the result by tasks/result. The
// library knows nothing of them, so what is said of them is put in and taken out around it. They
// are there over HTTP alone.

const (
	sessions20251125 = "2025-11-25"
	// metaWish is where the wish for a task stands on its way through the library.
	metaWish = "dev.sidecall/asTask"
	// metaRelated is where a result says of which task it is.
	metaRelated = "io.modelcontextprotocol/related-task"
	// recordAfter is how long it takes until a call that is to be a task is looked for.
	recordAfter = 20 * time.Millisecond
	// lookAgain is how long it takes until a task is looked at again, and cancelTime how long one may
	// take to end that is cancelled.
	lookAgain  = 100 * time.Millisecond
	cancelTime = 2 * time.Second
)

// hasOldTasks reports that a session is one in which clients may ask for tasks.
func hasOldTasks(session *sdk.ServerSession) bool {
	params := session.InitializeParams()
	return session.ID() != "" && params != nil && params.ProtocolVersion == sessions20251125
}

// wishesTask reports that a call is to be a task.
func wishesTask(session *sdk.ServerSession, meta map[string]any) bool {
	return meta[metaWish] == true && hasOldTasks(session)
}

// withWish moves the wish for a task from where the library does not read it.
func withWish(req *http.Request) error {
	body, err := io.ReadAll(req.Body) // from memory
	if err != nil {
		return err
	}
	if bytes.Contains(body, []byte(`"tools/call"`)) && bytes.Contains(body, []byte(`"task"`)) {
		body = wishMoved(body)
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// wishMoved is a message with the wish in its _meta; message itself where there is none.
func wishMoved(message []byte) []byte {
	var all, params, meta map[string]json.RawMessage
	if json.Unmarshal(message, &all) != nil || json.Unmarshal(all["params"], &params) != nil || params["task"] == nil {
		return message
	}
	if json.Unmarshal(params["_meta"], &meta) != nil || meta == nil {
		meta = make(map[string]json.RawMessage)
	}
	meta[metaWish] = json.RawMessage("true")
	params["_meta"], _ = json.Marshal(meta) // of what was read
	all["params"], _ = json.Marshal(params) // likewise
	moved, _ := json.Marshal(all)           // likewise
	return moved
}

// extended is a result with members that the library does not know.
type extended struct {
	sdk.Result

	extend func(members map[string]json.RawMessage) error
}

// MarshalJSON implements json.Marshaler.
func (e extended) MarshalJSON() ([]byte, error) {
	encoded, err := json.Marshal(e.Result)
	var members map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(encoded, &members)
	}
	if err == nil {
		err = e.extend(members)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// withTasks says that there are tasks, to a client that may ask for them.
func withTasks(session *sdk.ServerSession, result sdk.Result) sdk.Result {
	switch result := result.(type) {
	case *sdk.InitializeResult:
		if hasOldTasks(session) {
			return extended{result, offersTasks}
		}
	case *sdk.ListToolsResult:
		if hasOldTasks(session) {
			return extended{result, mayBeTasks}
		}
	}
	return result
}

func offersTasks(members map[string]json.RawMessage) error {
	var capabilities map[string]json.RawMessage
	err := json.Unmarshal(members["capabilities"], &capabilities)
	if err == nil {
		capabilities["tasks"] = json.RawMessage(`{"cancel":{},"requests":{"tools":{"call":{}}}}`)
		members["capabilities"], err = json.Marshal(capabilities)
	}
	return err
}

func mayBeTasks(members map[string]json.RawMessage) error {
	var tools []map[string]json.RawMessage
	err := json.Unmarshal(members["tools"], &tools)
	for _, tool := range tools {
		tool["execution"] = json.RawMessage(`{"taskSupport":"optional"}`)
	}
	if err == nil {
		members["tools"], err = json.Marshal(tools)
	}
	return err
}

// asWished makes a call that is to be a task. What ends without a record of its own is none: where it
// was not made res says why, else res is what it has returned.
func (f *face) asWished(ctx context.Context, req *sdk.CallToolRequest, of named, call *sidecallv1.ExecuteToolStreamRequest) (res *sidecallv1.ExecuteToolResponse, task *taskResult, err error) {
	res, task, err = f.runOrHand(ctx, req, of, call, recordAfter)
	if err != nil || task != nil {
		return nil, task, err
	}
	if res.GetRecorded() {
		if known, err := f.execution(ctx, of); err == nil {
			return nil, handleOf(of, known).as(known), nil
		}
		return res, nil, nil
	}
	if res.GetError() == nil || res.GetRecovery().GetAttempts() > 0 {
		return res, nil, nil
	}
	data, _ := json.Marshal(mcpresult.FieldsOf(res.GetError())) // of texts alone
	return res, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no task: " + res.GetError().GetConstraint(), Data: data}
}

// taskEnd waits for the end of a task, and answers what its call would have been answered.
func (f *face) taskEnd(ctx context.Context, session *sdk.ServerSession, params *taskParams) (*sdk.CallToolResult, error) {
	if isStateless(session) {
		return nil, errNoTasks
	}
	t, known, err := f.await(ctx, session, params)
	switch {
	case err != nil:
		return nil, err
	case t.Error != nil:
		return nil, t.Error
	}
	res := mcpresult.Of(known.GetResult())
	res.Meta[metaRelated] = map[string]any{"taskId": params.TaskID}
	return res, nil
}

// await looks at a task until it has ended.
func (f *face) await(ctx context.Context, session *sdk.ServerSession, params *taskParams) (*taskResult, *sidecallv1.Execution, error) {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		h, known, err := f.task(ctx, session, params)
		if err != nil {
			return nil, nil, err
		}
		if t := h.as(known); t.Status != "working" {
			return t, known, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

// cancelled cancels a task, and answers how it has ended.
func (f *face) cancelled(ctx context.Context, session *sdk.ServerSession, params *taskParams, h handle, known *sidecallv1.Execution) (*taskResult, error) {
	if t := h.as(known); t.Status != "working" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "taskId: the task has ended as " + t.Status}
	}
	f.cancelTasks(h.is)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer time.AfterFunc(cancelTime, stop).Stop() // no deadline, which who is asked may find to be over before it is here
	t, _, err := f.await(ctx, session, params)
	if err != nil && ctx.Err() != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the call goes on: it has an effect, which nobody would undo by breaking it off"}
	}
	if err == nil {
		t.old = true
	}
	return t, err
}

// oldTask is a task as 2025-11-25 has it, where a result that is a failure makes it one that failed.
func (t *taskResult) oldTask() any {
	status := t.Status
	if t.Result != nil && t.Result.IsError {
		status = "failed"
	}
	task := struct {
		TaskID        string    `json:"taskId"`
		Status        string    `json:"status"`
		StatusMessage string    `json:"statusMessage,omitempty"`
		CreatedAt     time.Time `json:"createdAt"`
		LastUpdatedAt time.Time `json:"lastUpdatedAt"`
		TTL           *int64    `json:"ttl"` // null: as long as its record is kept
		Poll          int64     `json:"pollInterval"`
	}{t.TaskID, status, t.StatusMessage, t.CreatedAt, t.LastUpdatedAt, t.TTL, t.Poll}
	if t.ResultType == "task" {
		return map[string]any{"task": task}
	}
	return task
}
