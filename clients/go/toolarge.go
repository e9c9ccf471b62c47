package sidecall

import (
	"encoding/json"
	"fmt"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// tooLarge is the result of a call that no request can hold: the sidecar has not even read
// it.
func tooLarge(call *sidecallv1.ExecuteToolRequest, most string) *Result {
	return refused(call.GetToolUseId(), sidecallv1.RecoveryClass_RECOVERY_CLASS_MALFORMED, &Error{
		Code:       "INVALID_ARGS",
		Constraint: fmt.Sprintf("a call has at most %s bytes (limits.max_request_bytes)", most),
		Received:   fmt.Sprintf("(%d bytes of arguments)", len(call.GetArgumentsJson())),
		Hint:       fmt.Sprintf("Nothing was run. Shorten the arguments, or split them, then call %s again: once for each part.", call.GetToolName()),
	})
}

// refused is a result that does not come from the sidecar, of a call that the model may make
// otherwise.
func refused(id string, class sidecallv1.RecoveryClass, e *Error) *Result {
	return &Result{
		ToolUseId: id, Outcome: sidecallv1.Outcome_OUTCOME_ERROR, IsError: true, Content: fiveFields(e), Error: e, Violations: []*Error{e},
		Recovery: &sidecallv1.Recovery{Class: class, Retryable: true},
	}
}

func fiveFields(e *Error) string {
	text, err := json.Marshal(struct {
		Code       string `json:"code"`
		Field      string `json:"field"`
		Constraint string `json:"constraint"`
		Received   string `json:"received"`
		Hint       string `json:"hint"`
	}{e.GetCode(), e.GetField(), e.GetConstraint(), e.GetReceived(), e.GetHint()})
	if err != nil { // five strings
		panic(err)
	}
	return string(text)
}
