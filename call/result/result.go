// Package result makes the response of a call: what is recorded, what a replay
// gives again, and what the agent gets. The words of errors come from package
// explain; here they get their shape.
package result

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/output"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/tool"
)

// Response is the one result of a call.
type Response = sidecallv1.ExecuteToolResponse

// For is the call that a response answers.
type For struct {
	// ID is its tool_use_id.
	ID string
	// Start is when it arrived.
	Start time.Time
	// Attempts is how often the backend was asked.
	Attempts int
}

func (f For) took() *durationpb.Duration { return durationpb.New(time.Since(f.Start)) }

// Worked is the result of a call that worked.
func (f For) Worked(reading *interpret.Reading, items Items, shaped *output.Shaped) *Response {
	res := &Response{
		ToolUseId: f.ID,
		Outcome:   outcome(reading.Outcome),
		Items:     items.Shown,
		Duration:  f.took(),
	}
	res.Notices = items.notices(res.GetNotices())
	Reshape(res, shaped)
	return res
}

// Reshape gives a result what is shown of its reply.
func Reshape(res *Response, shaped *output.Shaped) {
	res.Content = shaped.Content
	res.StructuredContentJson, res.StructuredOutputRef = shaped.StructuredJSON, shaped.StructuredRef
	res.Blocks = blocks(shaped.Blocks, shaped.BlockRefs)
	res.Truncation = nil
	if shaped.Truncated {
		res.Truncation = &sidecallv1.Truncation{
			OriginalChars: shaped.OriginalChars, ReturnedChars: shaped.ReturnedChars,
			OutputRef: shaped.Ref, Strategy: shaped.Strategy,
		}
	}
}

// WithItems gives a failed call the items of its reply, of which none was done.
func WithItems(res *Response, items Items) {
	res.Items, res.Notices = items.Shown, items.notices(res.GetNotices())
}

// notices adds what is to be said of items that are not shown.
func (i *Items) notices(to []string) []string {
	if i.Left == 0 {
		return to
	}
	return append(to, fmt.Sprintf("items shows the first %d of %d.", len(i.Shown), len(i.Shown)+i.Left))
}

// Valid answers validate_only; notes say what was changed in the arguments.
func (f For) Valid(toolName string, notes []string) *Response {
	return &Response{
		ToolUseId: f.ID,
		Outcome:   sidecallv1.Outcome_OUTCOME_OK,
		Content:   fmt.Sprintf("The arguments of %s are valid. Nothing was run.", toolName),
		Notices:   notes,
		Duration:  f.took(),
	}
}

// Invalid answers arguments that break the schema; there is one violation at
// least.
func (f For) Invalid(violations []tool.Error) *Response {
	for i, v := range violations {
		violations[i] = bounded(v)
	}
	res := f.Failed(violations[0], tool.Failure{})
	res.Content = tool.RenderError(violations[0], violations[1:])
	for _, v := range violations {
		res.Violations = append(res.Violations, Error(v))
	}
	return res
}

// Suggest adds to a refusal the arguments to send instead, whole and as JSON, and
// the tool to send them to when it is another one; "" is no suggestion. It is for
// the program: the content keeps its five keys. What could pass for a tag of the
// sidecar's own is not suggested, since taking it out would change what was sent.
func Suggest(res *Response, toolName, argumentsJSON string) {
	if argumentsJSON == "" || output.Disarm(argumentsJSON) != argumentsJSON {
		return
	}
	res.Recovery.SuggestedToolName = toolName
	res.Recovery.SuggestedArgumentsJson = argumentsJSON
}

// SetContext gives a failed call what was tried before it. What a model or a tool said
// of it stands there too, so it is cleaned, and nothing in it looks like the end of a
// tool's output.
func SetContext(res *Response, text string) {
	res.Recovery.Context = output.Disarm(output.Clean([]byte(text)))
}

// Shown is what is sent as it is shown, whole; empty for what would be cleaned.
func Shown(text string) string {
	if output.Disarm(output.Clean([]byte(text))) != text {
		return ""
	}
	return text
}

// Refused answers a call that was not started.
func (f For) Refused(explained tool.Error, retryAfter time.Duration) *Response {
	return f.Failed(explained, tool.Failure{RetryAfter: retryAfter})
}

// Failed is the result of a call that did not work. Of the failure count when to
// try again and what may be called instead.
func (f For) Failed(explained tool.Error, failure tool.Failure) *Response {
	explained = bounded(explained)
	recovery := &sidecallv1.Recovery{
		Class:               class(explained.Code.Class()),
		Retryable:           explained.Code.Retryable(),
		AllowedAlternatives: failure.AllowedAlternatives,
		Attempts:            int32(min(f.Attempts, 1<<20)),
	}
	if failure.RetryAfter > 0 {
		recovery.RetryAfter = durationpb.New(failure.RetryAfter)
	}
	return &Response{
		ToolUseId: f.ID,
		Outcome:   sidecallv1.Outcome_OUTCOME_ERROR,
		IsError:   true,
		Content:   tool.RenderError(explained, nil),
		Error:     Error(explained),
		Recovery:  recovery,
		Duration:  f.took(),
	}
}

// What is told of an error at the most, in characters: the arguments that it is
// about may be as large as a request. The rule itself may be a list of all that is
// allowed, which programs read.
const (
	maxField      = 1_000
	maxConstraint = 32_000
	maxHint       = 8_000
)

// bounded bounds an error. What an untrusted tool says may stand in any of its
// fields, and none of them may look like the end of its output.
func bounded(e tool.Error) tool.Error {
	e.Field = output.Disarm(tool.Shorten(e.Field, maxField))
	e.Constraint = output.Disarm(tool.Shorten(e.Constraint, maxConstraint))
	e.Received = output.Disarm(e.Received)
	e.Hint = output.Disarm(tool.Shorten(e.Hint, maxHint))
	return e
}

// Replay is the recorded result of a call; an error when the record holds none
// that can be read.
func Replay(record dedupe.Record) (*Response, error) {
	if len(record.Result) == 0 {
		return nil, errors.New("the record holds no result")
	}
	res := &Response{}
	if err := proto.Unmarshal(record.Result, res); err != nil {
		return nil, fmt.Errorf("the recorded result cannot be read: %w", err)
	}
	res.Replayed = true
	return res, nil
}

// AddToHint adds a sentence to the hint of a failed call.
func AddToHint(res *Response, sentence string) {
	e := res.GetError()
	e.Hint += " " + sentence
	var more []tool.Error
	for i, v := range res.GetViolations() {
		if i == 0 {
			v.Hint = e.GetHint() // the first one is the error
		} else {
			more = append(more, spoken(v))
		}
	}
	res.Content = tool.RenderError(spoken(e), more)
}

// spoken is the inverse of Error.
func spoken(e *sidecallv1.ToolError) tool.Error {
	return tool.Error{
		Code: tool.Code(e.GetCode()), Field: e.GetField(), Constraint: e.GetConstraint(),
		Received: e.GetReceived(), Hint: e.GetHint(),
	}
}
