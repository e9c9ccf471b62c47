package call

import (
	"context"
	"runtime/debug"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/telemetry"
	"github.com/sidecall/sidecall/tool"
)

// info describes the call for telemetry.
func (c *call) info() telemetry.CallInfo {
	info := telemetry.CallInfo{
		Tool: tool.Shorten(c.Tool, maxToolName), Registered: c.route != nil,
		Tenant: c.Key.Tenant, ID: c.Key.ID, Conversation: c.Key.Conversation, Turn: c.Key.Turn, Prompt: c.Prompt, Labels: c.Labels,
		Apart: c.ValidateOnly || c.Nameless != nil,
	}
	if c.route != nil {
		info.Description = c.route.Tool.Description
	}
	if c.Nameless != nil {
		for _, id := range [...]*string{&info.ID, &info.Conversation, &info.Turn, &info.Prompt} {
			*id = tool.ShortenBytes(*id, maxIDBytes)
		}
	}
	if c.Impossible != nil {
		info.Labels = nil // they may be what is wrong
	}
	return info
}

// end describes the result for telemetry.
func (c *call) end(caller context.Context, res *response) telemetry.CallEnd {
	end := telemetry.CallEnd{
		Outcome:  "ok",
		Code:     tool.Code(res.GetError().GetCode()),
		Attempts: c.tried.sent,
		Replayed: res.GetReplayed(),
		Recorded: res.GetRecorded(),
		Shape:    shapeOf(c.args),
		Notes:    c.notes,
		Err:      c.cause,
		Stack:    c.stack,

		Profile: c.applied(), Rule: c.refusedBy(res),

		CallerLeft: c.tried.sent > 0 && caller.Err() != nil,
	}
	switch {
	case res.GetReplayed():
		end.Outcome, end.Origin = "replayed", res.GetTraceparent()
	case end.Code == "" && c.tried.sent > 1:
		end.Outcome = "retried"
	case res.GetOutcome() == sidecallv1.Outcome_OUTCOME_EMPTY:
		end.Outcome = "empty"
	case res.GetOutcome() == sidecallv1.Outcome_OUTCOME_PARTIAL:
		end.Outcome = "partial"
	case end.Code == "":
	case end.Code.Class() == tool.Unknown:
		end.Outcome = "unknown"
	case end.Code.Class() == tool.Transient:
		end.Outcome = "transient_fail"
	default:
		end.Outcome = "permanent_fail"
	}
	return end
}

// applied is the name of the profile that the call was held to; empty when it was none.
func (c *call) applied() string {
	if c.Nameless != nil || c.Impossible != nil || c.of.Stranger {
		return ""
	}
	return c.of.Profile.Name
}

// tell counts and logs a call that has its result. A bug there must not take the
// result with it, nor the process: a call of a batch has no other net.
func (e *Executor) tell(caller context.Context, c *call, res *response) {
	defer func() {
		if p := recover(); p != nil {
			e.Recorder.Panicked(p, debug.Stack())
		}
	}()
	c.trace.End(caller, c.end(caller, res))
}
