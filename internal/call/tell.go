package call

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// infoOf describes a call for telemetry.
func infoOf(c *call) telemetry.CallInfo {
	info := telemetry.CallInfo{
		Tool: tool.Shorten(c.Tool, maxToolName), Registered: c.of.Route != nil,
		CallID: c.Key, Prompt: c.Prompt, Labels: c.Labels,
		Apart: c.runsNothing() || c.Nameless != nil,
	}
	if route := c.of.Route; route != nil {
		info.Description = route.Tool.Description
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

// endOf describes its result for telemetry.
func endOf(c *call, res *response, callerLeft bool) telemetry.CallEnd {
	end := telemetry.CallEnd{
		Outcome:  "ok",
		Code:     tool.Code(res.GetError().GetCode()),
		Attempts: c.now.Sent,
		Replayed: res.GetReplayed(),
		Recorded: res.GetRecorded(),
		Shape:    shapeOf(c.now.Args),
		Notes:    c.log.notes,
		Err:      c.cause(),
		Stack:    c.log.stack,

		Profile: profileOf(c), Rule: ruleOf(c, res),

		CallerLeft: callerLeft,
	}
	switch {
	case res.GetReplayed():
		end.Outcome, end.Origin = "replayed", res.GetTraceparent()
	case end.Code == "" && c.now.Sent > 1:
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

// cause is why the call failed, for the log: it may be in the words of the backend, which quotes what it was
// entrusted with.
func (c *call) cause() error {
	if c.log.cause == nil || c.of.Route == nil {
		return c.log.cause
	}
	return errors.New(c.of.Route.Secrets.Replace(c.log.cause.Error()))
}

// profileOf is the name of the profile that the call was held to; empty when it was none.
func profileOf(c *call) string {
	if c.Nameless != nil || c.Impossible != nil || c.of.UnknownProfile {
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
	if res.GetReplayed() {
		e.replays.add(c.Key)
	} else if _, known := c.snapshot.Lookup(c.Tool); known && res.GetError() != nil {
		e.texts.add(c.Tool, res.GetError())
	}
	if c.log.open != nil {
		e.Notify.TellOf(c.Key, c.log.open, res.GetError().GetConstraint())
	}
	c.log.trace.End(caller, endOf(c, res, c.now.Sent > 0 && caller.Err() != nil))
}

// codeRules are the rules of which the code tells, when nothing was sent and nobody has said
// which: report.by.
var codeRules = map[tool.Code]string{
	tool.CodePermissionDenied: "profile",
	tool.CodeIDReused:         "id_reused",
	tool.CodeCircuitOpen:      "breaker",
	tool.CodeRateLimited:      "rate_limit",
	tool.CodeOverloaded:       "overloaded",
	tool.CodeStoreUnavailable: "store",
	tool.CodeDuplicateEffect:  "effect_duplicate",
	tool.CodeApprovalRequired: "approval",
}

// ruleOf is the rule by which a call was refused before anything was sent, for
// telemetry; empty when it was not.
func ruleOf(c *call, res *response) string {
	code := tool.Code(res.GetError().GetCode())
	switch {
	case c.now.Sent > 0 || res.GetReplayed():
		return ""
	case c.log.by.rule != "" && c.log.by.code == code:
		return c.log.by.rule
	default: // whatever was about to refuse it
		return codeRules[code]
	}
}
