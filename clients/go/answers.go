package sidecall

import (
	"encoding/json"
	"fmt"

	"github.com/sidecall/sidecall/internal/provider"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// object is one in JSON.
type object = map[string]any

// Answers returns what is to be appended for the results of the turn's calls, in this
// order and with nothing in between:
//
//	anthropic         one user message, its tool_result blocks in the order of the calls
//	openai            one tool message per call, then, when there are pictures, a user
//	                  message that has them
//	openai-responses  one function_call_output item per call
//
// A result's content stands there word for word, and after it what was tried before and
// what is to be noticed.
func (t *Turn) Answers(results []*Result) ([]json.RawMessage, error) {
	messages, err := provider.Answers(t.Format, results)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoMessage, err)
	}
	return messages, nil
}

// notRun are the results of the calls of a message that was cut: none of them is run,
// as nobody knows whether it is what the model meant.
func (t *Turn) notRun() []*Result {
	results := make([]*Result, len(t.Calls))
	for i, call := range t.Calls {
		results[i] = refused(call.ID, sidecallv1.RecoveryClass_RECOVERY_CLASS_TRANSIENT, &Error{
			Code:       "CANCELLED",
			Constraint: fmt.Sprintf("the message ends early (%s), so its calls may be incomplete", t.Cut),
			Hint:       "Nothing was run. Make the calls again, fewer of them or with shorter arguments in one message.",
		})
	}
	return results
}

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

// ToolsFor are tools as a provider takes them in its tools parameter.
func ToolsFor(format Format, tools []*Tool) ([]json.RawMessage, error) {
	all := make([]json.RawMessage, len(tools))
	for i, tool := range tools {
		about := object{"name": tool.GetName(), "description": tool.GetDescription()}
		schema := json.RawMessage(tool.GetInputSchemaJson())
		var entry object
		switch format {
		case Anthropic:
			about["input_schema"] = schema
			entry = about
		case OpenAI, OpenAIResponses:
			// Schemas of tools are not written for a provider's strict mode.
			about["parameters"], about["strict"] = schema, false
			if entry = about; format == OpenAI {
				entry = object{"function": about}
			}
			entry["type"] = "function"
		default:
			return nil, fmt.Errorf("there is no format %q: want %s, %s or %s", format, Anthropic, OpenAI, OpenAIResponses)
		}
		var err error
		if all[i], err = json.Marshal(entry); err != nil {
			return nil, fmt.Errorf("tool %s: %w", tool.GetName(), err)
		}
	}
	return all, nil
}
