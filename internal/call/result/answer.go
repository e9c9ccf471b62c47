package result

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/rules/loop/guard"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Answer is what a call is answered, as data: Render makes the response of it, once.
// Of its three kinds it is the first that is set: Again, Error, or a reply that worked.
type Answer struct {
	For
	Cause
	Success
	Recovery
	Remarks
	Decisions
	Origin

	// Again is a recorded response that is told once more, in its own words.
	Again *Response
	// Loop is what the loop guard has found; of Pass when that is nothing.
	Loop guard.Verdict
}

// Cause is why a call did not work.
type Cause struct {
	Error *tool.Error
	// Violations are the rules that the arguments break. The content tells them all when
	// Error is the first of them (Invalid).
	Violations []tool.Error
	Invalid    bool
	// Earlier is the call whose effect stands in the way.
	Earlier *sidecallv1.EarlierEffect
}

// Success is what came of a call that worked.
type Success struct {
	// Reading is its reply, and Show how it is shown; without a Reading Text is the whole content.
	Reading *interpret.Reading
	Show    output.Input
	Text    string
}

// Recovery is what can be done about a call that did not work.
type Recovery struct {
	// RetryAfter is when the call may be sent again; 0 says nothing. Exhausted: it was
	// sent as often as its policy allows.
	RetryAfter time.Duration
	Exhausted  bool
	// Alternatives may be called instead.
	Alternatives []string
	// SuggestedArguments are to be sent instead, to SuggestedTool if that is another one.
	SuggestedTool, SuggestedArguments string
	// Context is what was tried before.
	Context string
}

// Remarks are told beside what came of a call.
type Remarks struct {
	// Items are what the reply told item by item.
	Items Items
	// Nudge is said of a call that worked; empty for nothing.
	Nudge string
	// Hints are said behind the hint of Error, Notices beside the content.
	Hints, Notices []string
}

// Decisions are those of people: Resolution says who settled the call, Approval who has
// allowed it, and Hold what a person is asked.
type Decisions struct {
	Resolution, Approval *sidecallv1.Resolution
	Hold                 *sidecallv1.Hold
}

// Origin is where an answer comes from.
type Origin struct {
	// Quotes is a recorded response whose words it tells; Again is one. Foreign: it has
	// words of a tool that is not trusted, which is not the call's own.
	Quotes  *Response
	Foreign bool
	// Replayed: it was found out before. Recorded: duplicates get the same.
	Replayed, Recorded bool
}

// For is the call that an answer is for.
type For struct {
	// ID is its tool_use_id.
	ID string
	// Start is when it arrived; the zero time where the answer is to be the same
	// whenever it is given. Took is then how long the call took; 0 where nobody knows.
	Start time.Time
	Took  time.Duration
	// Attempts is how often the backend was asked.
	Attempts int
}

func (f For) duration() *durationpb.Duration {
	switch {
	case !f.Start.IsZero():
		return durationpb.New(time.Since(f.Start))
	case f.Took > 0:
		return durationpb.New(f.Took)
	default:
		return nil
	}
}

// LastTook makes the answer the same whenever it is given: of its duration counts that of
// the record, where it has ended.
func (a *Answer) LastTook(started, finished time.Time) {
	if a.Start = (time.Time{}); !finished.IsZero() {
		a.Took = finished.Sub(started)
	}
}

// Refused answers a call that was not started.
func (f For) Refused(explained tool.Error, retryAfter time.Duration) *Answer {
	explained = bounded(explained)
	return &Answer{For: f, Cause: Cause{Error: &explained}, Recovery: Recovery{RetryAfter: retryAfter}}
}

// Failed answers a call that did not work. Of the failure count when to try again and
// what may be called instead.
func (f For) Failed(explained tool.Error, failure *tool.Failure) *Answer {
	a := f.Refused(explained, failure.RetryAfter)
	a.Alternatives = failure.AllowedAlternatives
	return a
}

// NotValid answers arguments that break the schema; there is one violation at least.
func (f For) NotValid(violations []tool.Error) *Answer {
	a := f.Refused(violations[0], 0)
	for _, v := range violations {
		a.Violations = append(a.Violations, bounded(v))
	}
	a.Invalid = true
	return a
}

// Valid answers validate_only; notes say what was changed in the arguments.
func (f For) Valid(toolName string, notes []string) *Answer {
	text := fmt.Sprintf("The arguments of %s are valid. Nothing was run.", toolName)
	return &Answer{For: f, Success: Success{Text: text}, Remarks: Remarks{Notices: notes}}
}

// Suggest adds to a refusal the arguments to send instead, whole and as JSON, and the tool
// to send them to when it is another one; "" is no suggestion. It is for the program: the
// content keeps its five keys.
func (r *Recovery) Suggest(toolName, argumentsJSON string) {
	if argumentsJSON != "" {
		r.SuggestedTool, r.SuggestedArguments = toolName, argumentsJSON
	}
}

// Code is what went wrong; empty for a call that worked.
func (a *Answer) Code() tool.Code {
	switch {
	case a.Again != nil:
		return tool.Code(a.Again.GetError().GetCode())
	case a.Error != nil:
		return a.Error.Code
	default:
		return ""
	}
}

// Content is that of a call that did not work.
func (a *Answer) Content() string {
	first := *a.Error
	for _, hint := range a.Hints {
		first.Hint += " " + hint
	}
	if !a.Invalid {
		return tool.RenderError(first, nil)
	}
	return tool.RenderError(first, a.Violations[1:])
}

// Render makes the response, and the output that is to be kept of its reply; nil where
// nothing is.
func (a *Answer) Render() (*Response, *output.Shaped) {
	if a.Again != nil {
		return a.again(), nil
	}
	res := &Response{
		ToolUseId: a.ID, Outcome: sidecallv1.Outcome_OUTCOME_OK, Content: a.Text, Notices: a.Notices, Items: a.Items.Shown,
		Earlier: a.Earlier, Resolution: a.Resolution, Approval: a.Approval, Hold: a.Hold, Replayed: a.Replayed, Recorded: a.Recorded, Duration: a.duration(),
	}
	var kept *output.Shaped
	switch {
	case a.Error != nil:
		a.fail(res)
	case a.Reading != nil:
		kept = a.show(res)
	}
	if a.Loop.Level != guard.Pass {
		res.Loop, res.Stop = loop(a.Loop), a.Loop.Level >= guard.Stop
	}
	return res, kept
}

// again tells a recorded response once more.
func (a *Answer) again() *Response {
	res := a.Again
	res.Replayed, res.Recorded = a.Replayed, a.Recorded
	res.Notices = append(res.Notices, a.Notices...)
	if a.RetryAfter > 0 && res.GetRecovery() != nil {
		res.Recovery.RetryAfter = durationpb.New(a.RetryAfter)
	}
	if a.Resolution != nil {
		res.Resolution = a.Resolution
	}
	return res
}

// fail makes the response of a call that did not work.
func (a *Answer) fail(res *Response) {
	res.Outcome, res.IsError, res.Content = sidecallv1.Outcome_OUTCOME_ERROR, true, a.Content()
	res.Error = Error(*a.Error)
	for _, hint := range a.Hints {
		res.Error.Hint += " " + hint
	}
	for i, v := range a.Violations {
		told := Error(v)
		if i == 0 && a.Invalid {
			told.Hint = res.GetError().GetHint()
		}
		res.Violations = append(res.Violations, told)
	}
	code := a.Error.Code
	res.Recovery = &sidecallv1.Recovery{
		Class: class(code.Class()), Retryable: code.Retryable(), AllowedAlternatives: a.Alternatives,
		Attempts: int32(min(a.Attempts, 1<<20)), RetriesExhausted: a.Exhausted,
		SuggestedToolName: a.SuggestedTool, SuggestedArgumentsJson: a.SuggestedArguments,
		// What a model or a tool said of an attempt stands there too, so it is cleaned.
		Context:           output.Clean([]byte(a.Context)),
		RequireEscalation: a.Loop.Level >= guard.Escalate,
	}
	if a.RetryAfter > 0 {
		res.Recovery.RetryAfter = durationpb.New(a.RetryAfter)
	}
	res.Notices = a.Items.notices(res.GetNotices())
}

// show makes the response of a call that worked.
func (a *Answer) show(res *Response) *output.Shaped {
	in := a.Show
	in.Reply, in.CarryLimit = a.Reading.Reply, output.DefaultCarry-a.Items.Bytes
	in.Remarks = besides(in.Remarks, a.Nudge)
	shaped := output.Shape(in)
	res.Outcome = outcome(a.Reading.Outcome)
	res.Content, res.InputRequiredJson = shaped.Content, string(a.Reading.Reply.InputRequired)
	res.StructuredContentJson, res.StructuredOutputRef = shaped.StructuredJSON, shaped.StructuredRef
	res.Blocks = blocks(shaped.Blocks, shaped.BlockRefs)
	if shaped.Truncated {
		res.Truncation = &sidecallv1.Truncation{
			OriginalChars: shaped.OriginalChars, ReturnedChars: shaped.ReturnedChars,
			OutputRef: shaped.Ref, Strategy: shaped.Strategy,
		}
	}
	res.Notices = a.Items.notices(nil)
	if len(a.Show.Remarks) > 0 {
		res.Notices = append(res.Notices, a.Show.Remarks[0])
	}
	if a.Nudge != "" {
		res.Notices = append(res.Notices, a.Nudge)
	}
	res.Notices = append(res.Notices, a.Notices...)
	if shaped.Ref == "" {
		return nil
	}
	return &shaped
}

// besides is what is said of a result beside it, the fullest first: how it was done,
// and that it is a repetition.
func besides(observed []string, nudge string) []string {
	if nudge == "" {
		return observed
	}
	both := make([]string, 0, 2*len(observed)+1)
	for _, remark := range observed {
		both = append(both, remark+" "+nudge)
	}
	return append(append(both, observed...), nudge)
}

// NewEarlier is a call whose effect stands in the way of another.
func NewEarlier(key tool.CallID, state dedupe.State, finished time.Time) *sidecallv1.EarlierEffect {
	return &sidecallv1.EarlierEffect{
		ConversationId: key.Conversation, TurnId: key.Turn, ToolUseId: key.ID,
		State: State(state), FinishedAt: Instant(finished),
	}
}

// loop is a finding of the loop guard as the contract has it.
func loop(v guard.Verdict) *sidecallv1.LoopFinding {
	return &sidecallv1.LoopFinding{
		Level: loopLevel(v.Level), Rule: v.Rule.String(), Count: int32(v.Count), Limit: int32(v.Limit),
		Since: timestamppb.New(v.Since.Time()), Refusals: int32(v.Refusals), Round: v.Round,
	}
}
