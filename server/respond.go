package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/output"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/telemetry"
	"github.com/sidecall/sidecall/tool"
)

type response = sidecallv1.ExecuteToolResponse

// storeRetryAfter is what a caller is told to wait while the store is down.
const storeRetryAfter = 2 * time.Second

// parse reads and checks the arguments.
func (c *call) parse() (map[string]any, []tool.Error) {
	args, violation := c.route.Schema.ParseArgs(c.req.GetArgumentsJson())
	if violation != nil {
		return nil, []tool.Error{*violation}
	}
	c.args = args // what is refused is logged with its shape too
	args, notes, violations := c.route.Schema.Check(args)
	c.notes = notes
	return args, violations
}

// respond builds the result of a call that worked.
func (c *call) respond(reading *interpret.Reading, shaped *output.Shaped) *response {
	res := &response{
		ToolUseId:             c.req.GetToolUseId(),
		Outcome:               sidecallv1.Outcome_OUTCOME_OK,
		Content:               shaped.Content,
		StructuredContentJson: shaped.StructuredJSON,
		Blocks:                protoBlocks(shaped.Blocks),
		Items:                 protoItems(reading.Items),
		Duration:              durationpb.New(time.Since(c.start)),
	}
	switch reading.Outcome {
	case interpret.Empty:
		res.Outcome = sidecallv1.Outcome_OUTCOME_EMPTY
	case interpret.Partial:
		res.Outcome = sidecallv1.Outcome_OUTCOME_PARTIAL
	default:
	}
	if shaped.Truncated {
		res.Truncation = &sidecallv1.Truncation{
			OriginalChars: shaped.OriginalChars, ReturnedChars: shaped.ReturnedChars,
			OutputRef: shaped.Ref, Strategy: shaped.Strategy,
		}
	}
	return res
}

// valid answers validate_only.
func (c *call) valid() *response {
	return &response{
		ToolUseId: c.req.GetToolUseId(),
		Outcome:   sidecallv1.Outcome_OUTCOME_OK,
		Content:   fmt.Sprintf("The arguments of %s are valid. Nothing was run.", c.route.Tool.Name),
		Notices:   c.notes,
		Duration:  durationpb.New(time.Since(c.start)),
	}
}

// invalid answers arguments that break the schema.
func (c *call) invalid(violations []tool.Error) *response {
	res := c.failed(violations[0], tool.Failure{Code: violations[0].Code})
	res.Content = tool.RenderError(violations[0], violations[1:])
	for _, v := range violations {
		res.Violations = append(res.Violations, protoError(v))
	}
	return res
}

// refused answers a call that was not started.
func (c *call) refused(explained tool.Error, retryAfter time.Duration) *response {
	return c.failed(explained, tool.Failure{Code: explained.Code, RetryAfter: retryAfter})
}

// failed builds the result of a call that did not work.
func (c *call) failed(explained tool.Error, failure tool.Failure) *response {
	recovery := &sidecallv1.Recovery{
		Class:               protoClass(explained.Code.Class()),
		Retryable:           explained.Code.Retryable(),
		AllowedAlternatives: failure.AllowedAlternatives,
		Attempts:            int32(min(c.sent, 1<<20)),
	}
	if failure.RetryAfter > 0 {
		recovery.RetryAfter = durationpb.New(failure.RetryAfter)
	}
	return &response{
		ToolUseId: c.req.GetToolUseId(),
		Outcome:   sidecallv1.Outcome_OUTCOME_ERROR,
		IsError:   true,
		Content:   tool.RenderError(explained, nil),
		Error:     protoError(explained),
		Recovery:  recovery,
		Duration:  durationpb.New(time.Since(c.start)),
	}
}

// replay returns the recorded result of a call that is done.
func (c *call) replay(record dedupe.Record) *response {
	res := &response{}
	if err := proto.Unmarshal(record.Result, res); err != nil || len(record.Result) == 0 {
		c.cause = errors.Join(errors.New("the record of a call that is done holds no readable result"), err)
		return c.failed(explainLostResult(c), tool.Failure{Code: tool.CodeInvalidOutput})
	}
	res.Replayed = true
	return res
}

// unknownAgain answers a call that may or may not have happened, in the words in
// which that was first found out when there are any.
func (c *call) unknownAgain(record dedupe.Record) *response {
	if len(record.Result) > 0 {
		return c.replay(record)
	}
	end := c.unknown(&tool.Failure{
		Code: tool.CodeOutcomeUnknown, Evidence: tool.Ambiguous,
		Constraint: "the sidecar that ran this call stopped before it recorded a result",
	})
	end.response.Replayed, end.response.Recorded = true, true
	// The same answer every time: what is known of its duration is the record's.
	end.response.Duration = nil
	if !record.FinishedAt.IsZero() {
		end.response.Duration = durationpb.New(record.FinishedAt.Sub(record.StartedAt))
	}
	return end.response
}

// inProgress answers a duplicate of a call that is still running.
func (c *call) inProgress() *response {
	return c.refused(explainInProgress(c), time.Second)
}

// ending describes the result for telemetry.
func (c *call) ending(res *response) telemetry.CallEnd {
	end := telemetry.CallEnd{
		Outcome:  "ok",
		Code:     tool.Code(res.GetError().GetCode()),
		Attempts: c.sent,
		Replayed: res.GetReplayed(),
		Recorded: res.GetRecorded(),
		Shape:    shapeOf(c.args),
		Notes:    c.notes,
		Err:      c.cause,
		Stack:    c.stack,
	}
	switch {
	case res.GetReplayed():
		end.Outcome = "replayed"
	case end.Code == "" && c.sent > 1:
		end.Outcome = "retried"
	case end.Code == "":
		if res.GetOutcome() == sidecallv1.Outcome_OUTCOME_EMPTY {
			end.Outcome = "empty"
		} else if res.GetOutcome() == sidecallv1.Outcome_OUTCOME_PARTIAL {
			end.Outcome = "partial"
		}
	case end.Code.Class() == tool.Unknown:
		end.Outcome = "unknown"
	case end.Code.Class() == tool.Transient:
		end.Outcome = "transient_fail"
	default:
		end.Outcome = "permanent_fail"
	}
	return end
}

// explainNotStarted says why a call ended before it was sent: its time ran out,
// or its caller left.
func explainNotStarted(ctx context.Context, c *call) (tool.Error, tool.Failure) {
	explained := tool.Error{
		Code: tool.CodeTimeout, Constraint: fmt.Sprintf("the deadline of the call passed after %s, before it was sent", round(time.Since(c.start))),
	}
	again := "later"
	if errors.Is(context.Cause(ctx), context.Canceled) {
		again = "if it is still wanted"
		explained.Code, explained.Constraint = tool.CodeCancelled, "the caller cancelled before it was sent"
	}
	explained.Hint = fmt.Sprintf("Nothing was sent. Call %s again %s.", c.req.GetToolName(), again)
	if c.mayHaveRun() {
		explained.Hint = fmt.Sprintf("Nothing was sent now. Send the same call with the same id again %s.", again) + c.warnOfAnother()
	}
	return explained, tool.Failure{Code: explained.Code, Evidence: tool.NotExecuted}
}
