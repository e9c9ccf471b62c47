package mcp

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// What a client is told of a task is what the record of its call says.
func TestATaskIsItsRecord(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 26, 12, 0, 0, 5, time.UTC)
	failure := func(code string) *sidecallv1.ExecuteToolResponse {
		return &sidecallv1.ExecuteToolResponse{IsError: true, Error: &sidecallv1.ToolError{Code: code, Constraint: "c"}}
	}
	const (
		claimed = sidecallv1.ExecutionState_EXECUTION_STATE_CLAIMED
		done    = sidecallv1.ExecutionState_EXECUTION_STATE_DONE
		notRun  = sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN
		unknown = sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN
		closed  = sidecallv1.ExecutionState_EXECUTION_STATE_CLOSED
		held    = sidecallv1.ExecutionState_EXECUTION_STATE_HELD
	)
	for name, tt := range map[string]struct {
		state  sidecallv1.ExecutionState
		result *sidecallv1.ExecuteToolResponse
		want   string
		error  int64
	}{
		"at work":                           {state: claimed, want: "working"},
		"at work again":                     {state: claimed, result: failure("TIMEOUT"), want: "working"},
		"held":                              {state: held, result: failure("APPROVAL_REQUIRED"), want: "completed"},
		"done":                              {state: done, result: &sidecallv1.ExecuteToolResponse{Content: "ok"}, want: "completed"},
		"failed":                            {state: done, result: failure("UNRECOVERABLE"), want: "completed"},
		"of unknown outcome":                {state: unknown, result: failure("OUTCOME_UNKNOWN"), want: "completed"},
		"of unknown outcome, after a crash": {state: unknown, want: "failed", error: -32603},
		"not run":                           {state: notRun, result: failure("DEPENDENCY_UNAVAILABLE"), want: "completed"},
		"not run, after a crash":            {state: notRun, want: "failed", error: -32603},
		"answered by its conversation":      {state: closed, want: "failed", error: -32603},
		"cancelled":                         {state: notRun, result: failure("CANCELLED"), want: "cancelled"},
		"of no tool":                        {state: done, result: failure("UNKNOWN_TOOL"), want: "failed", error: -32602},
		"asking":                            {state: done, result: &sidecallv1.ExecuteToolResponse{InputRequiredJson: "{}"}, want: "failed", error: -32603},
	} {
		known := &sidecallv1.Execution{State: tt.state, Result: tt.result, StartedAt: timestamppb.New(began), FinishedAt: timestamppb.New(began.Add(time.Second)), Owner: "o"}
		got := handle{ID: "t"}.as(known)
		switch {
		case got.Status != tt.want, got.ResultType != "complete", (got.Result != nil) != (tt.want == "completed"), (got.Error != nil) != (tt.want == "failed"):
			t.Errorf("%s: %+v", name, got)
		case got.Error != nil && (got.Error.Code != tt.error || got.StatusMessage == ""):
			t.Errorf("%s: %+v", name, got.Error)
		case got.Result != nil && got.Result.IsError != tt.result.GetIsError():
			t.Errorf("%s: its result is %+v", name, got.Result)
		case !got.CreatedAt.Equal(began), !got.LastUpdatedAt.Equal(began.Add(time.Second)):
			t.Errorf("%s: from %s to %s", name, got.CreatedAt, got.LastUpdatedAt)
		}
	}
}

// A handle is of one claim: another process, or another time, gives another one.
func TestAHandleIsOfOneClaim(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 26, 12, 0, 0, 5, time.UTC)
	of := func(at time.Time, owner string) string {
		return sealed(handleOf(named{}, &sidecallv1.Execution{StartedAt: timestamppb.New(at), Owner: owner}))
	}
	one := of(at, "a")
	if of(at, "a") != one || of(at, "b") == one || of(at.Add(1), "a") == one {
		t.Error("a handle is not of its claim")
	}
	var h handle
	if !unsealed(one, &h) || unsealed(one[:len(one)-4], &h) || unsealed("", &h) {
		t.Error("a handle is read that was changed, or is not read")
	}
}
