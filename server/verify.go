package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/output"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/schema"
	"github.com/sidecall/sidecall/telemetry"
	"github.com/sidecall/sidecall/tool"
)

// Verification finds out what became of a call whose answer was lost, by asking
// a read-only tool.
//
// That the effect is there proves that the call has happened. That it is not
// there proves nothing while the request may still be under way: only an answer
// that was asked for NotRunAfter or longer after the call's end does.
type Verification struct {
	// Tool is the read-only tool.
	Tool    string
	Program *interpret.Verification
	// NotRunAfter is from when on an effect that is not there will not come.
	NotRunAfter time.Duration
	// Timeout bounds one verification; the tool's own attempt timeout does too.
	Timeout time.Duration
}

// byVerification is who settled a call that nobody had to look at.
const byVerification = "verification"

// finding is what a verification came to.
type finding struct {
	verdict interpret.Verdict
	// why nothing can be told, for the log and the operator.
	why error
	// asked is when, by the store's clock: before the question was sent.
	asked time.Time
	// result is for the model, of a call that has happened; nil for a sentence.
	result *backend.Reply
	// untrusted: the tool that was asked is.
	untrusted bool
	// cancelled: whoever asked left before there was an answer.
	cancelled bool
}

func inconclusive(format string, args ...any) finding {
	return finding{why: fmt.Errorf(format, args...)}
}

// verified takes a second look at a call that has just ended unknown, as far as
// its time allows: that it has happened is certain at once.
func (e *Executor) verified(ctx context.Context, c *call, end ending) ending {
	if end.state != dedupe.Unknown || c.route.Verification == nil || ctx.Err() != nil {
		return end
	}
	found := e.ask(ctx, c, c.claim.Epoch())
	switch found.verdict {
	case interpret.Happened:
		return ending{response: c.happened(found), state: dedupe.Done}
	case interpret.NotThere:
		addToHint(end.response, fmt.Sprintf("Sidecall has asked %s already: it does not show the call, which may still be under way.", c.route.Verification.Tool))
		end.response.Recovery.RetryAfter = durationpb.New(c.route.Verification.NotRunAfter)
	default:
	}
	return end
}

// reconsider asks what became of a call that is recorded as unknown. When that
// can be told now the record is settled so, or somebody else has done it, and
// the request is to be admitted anew: it then gets the result, or runs. Nobody
// waits for it in another's place.
func (e *Executor) reconsider(ctx context.Context, c *call, unknown dedupe.Admission) (admitAnew bool) {
	if c.route.Verification == nil || unknown.Journaled || ctx.Err() != nil || !c.places.standAside(e.Waiting) {
		return false
	}
	record := unknown.Record
	found := e.ask(ctx, c, record.Epoch)
	if notBefore := c.notRunFrom(record); found.verdict == interpret.NotThere && found.asked.Before(notBefore) {
		c.tooEarly = notBefore.Sub(found.asked)
		return false
	}
	if found.verdict == interpret.Inconclusive {
		return false
	}
	// Superseded or not: somebody knows more than we did.
	_, err := e.settleVerified(ctx, c, record, found)
	c.cause = err
	return err == nil
}

// settleVerified records what a verification has found of a call. False when
// the record is no longer the one that was looked at.
func (e *Executor) settleVerified(ctx context.Context, c *call, record dedupe.Record, found finding) (bool, error) {
	state, res := dedupe.Done, c.happened(found)
	if found.verdict == interpret.NotThere {
		state, res = dedupe.NotRun, c.absent(record)
	}
	return e.conclude(ctx, c, record, state, res)
}

// happened is the result of a call that a verification has found to be done.
func (c *call) happened(found finding) *response {
	with := c.route.Verification.Tool
	reason := fmt.Sprintf("%s shows that the call has happened", with)
	reply := found.result
	if reply == nil {
		reply = &backend.Reply{Text: fmt.Appendf(nil, "%s has happened: %s shows it. Its own answer was lost.", c.route.Tool.Name, with)}
	}
	policy := &c.route.Tool.Policy
	shaped := output.Shape(output.Input{
		Reply: *reply, ToolName: c.route.Tool.Name, Limit: c.outputLimit(), Strategy: policy.OutputStrategy,
		Untrusted: found.result != nil && (policy.Untrusted || found.untrusted),
	})
	res := c.respond(&interpret.Reading{Reply: *reply}, &shaped)
	res.Notices = append(res.Notices, fmt.Sprintf("The answer of %s itself was lost; %s.", c.route.Tool.Name, reason))
	res.Resolution = c.resolution(reason, dedupe.Done)
	return res
}

// absent is what a record keeps of a call that a verification has found not to
// have run.
func (c *call) absent(record dedupe.Record) *response {
	reason := fmt.Sprintf("%s does not show the call, %s or more after its end", c.route.Verification.Tool, c.route.Verification.NotRunAfter)
	res := c.lastWords(record)
	res.Resolution = c.resolution(reason, dedupe.NotRun)
	return res
}

// lastWords is what is recorded of an unknown call, as its first answer.
func (c *call) lastWords(record dedupe.Record) *response {
	res := c.unknownAgain(record)
	res.Replayed, res.Recorded = false, true
	return res
}

func (c *call) resolution(reason string, state dedupe.State) *sidecallv1.Resolution {
	return &sidecallv1.Resolution{
		By: cmp.Or(c.operator, byVerification), Reason: reason, At: timestamppb.Now(), State: protoState(state),
		VerifiedWith: c.route.Verification.Tool,
	}
}

// conclude settles the record of an unknown call, as it was looked at, and writes
// down who did. False when it is no longer that one.
func (e *Executor) conclude(ctx context.Context, c *call, record dedupe.Record, as dedupe.State, res *response) (bool, error) {
	res.Recorded = true
	encoded, err := proto.Marshal(res)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	verdict, err := e.Dedupe.Resolve(ctx, dedupe.Listed{Key: c.key(), Record: record}, as, encoded)
	if err == nil && verdict != dedupe.Settled {
		return false, nil
	}
	e.resolved(ctx, c, res.GetResolution(), record.Epoch, err)
	return err == nil, err
}

// resolved tells operators of a resolution; lost is why the store did not say
// that it has it. It may have it all the same, and the record forgets who made
// it when the call is claimed again.
func (e *Executor) resolved(ctx context.Context, c *call, made *sidecallv1.Resolution, epoch int64, lost error) {
	kind := "operator"
	if made.GetVerifiedWith() != "" {
		kind = byVerification
	}
	to := dedupe.Done
	if made.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN {
		to = dedupe.NotRun
	}
	e.Recorder.Resolved(ctx, telemetry.Resolution{
		By: made.GetBy(), Kind: kind, Reason: made.GetReason(), VerifiedWith: made.GetVerifiedWith(),
		Tool: c.route.Tool.Name, ID: c.req.GetToolUseId(), Conversation: c.req.GetConversationId(), Turn: c.req.GetTurnId(),
		From: dedupe.Unknown.String(), To: to.String(), Epoch: epoch, Unconfirmed: lost,
	})
}

// notRunFrom is from when on a call whose effect is not there has not run, by
// the store's clock. When the owner itself has said that it does not know, its
// attempt had ended then. When it has said nothing it may be cut off and at
// work still, until the deadline of the call.
func (c *call) notRunFrom(record dedupe.Record) time.Time {
	ended := record.FinishedAt
	if latest := record.StartedAt.Add(c.route.Tool.Policy.Deadline); len(record.Result) == 0 && ended.Before(latest) {
		ended = latest
	}
	return ended.Add(c.route.Verification.NotRunAfter)
}

// inquire asks the read-only tool once.
func (e *Executor) inquire(ctx context.Context, c *call) (found finding) {
	v := c.route.Verification
	defer func() {
		if p := recover(); p != nil {
			found = inconclusive("panic: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, v.Timeout)
	defer cancel()
	recording := e.Recorder.StartVerification(ctx, telemetry.VerificationInfo{
		With: v.Tool, Tool: c.route.Tool.Name,
		ID: c.req.GetToolUseId(), Conversation: c.req.GetConversationId(), Turn: c.req.GetTurnId(),
	})
	defer func() { recording.End(ctx, found.verdict.String(), found.why) }()
	question, err := e.question(c)
	if err != nil {
		return finding{why: err}
	}
	question.record = recording.Call
	if !question.places.take(nil, question.route, false) {
		return inconclusive("%s", question.places.isFull())
	}
	defer question.places.leaveAll()
	asked, err := e.Dedupe.Now(ctx)
	if err != nil {
		return inconclusive("the store does not tell its time: %w", err)
	}
	_ = e.guardedInvoke(ctx, question, 1, question.idempotencyKey()) // it is in question.reading
	judged := v.Program.Judge(question.reading, c.subject())
	return finding{
		verdict: judged.Verdict, why: errors.Join(judged.Why, question.cause), asked: asked, result: judged.Result,
		untrusted: question.route.Tool.Policy.Untrusted,
	}
}

// question is the call of the read-only tool.
func (e *Executor) question(c *call) (*call, error) {
	route, err := e.verifier(c.route.Verification.Tool)
	if err != nil {
		return nil, err
	}
	text, err := c.route.Verification.Program.Arguments(c.subject())
	if err != nil {
		return nil, err
	}
	q := &call{tenant: c.tenant, start: time.Now(), route: route, req: &sidecallv1.ExecuteToolRequest{
		ToolUseId: c.req.GetToolUseId() + "/verification", ToolName: route.Tool.Name, ArgumentsJson: string(text),
		ConversationId: c.req.GetConversationId(), TurnId: c.req.GetTurnId(),
	}}
	args, violations := q.parse()
	if len(violations) > 0 {
		return nil, fmt.Errorf("verify.args break the schema of %s: %s %s", route.Tool.Name, violations[0].Field, violations[0].Constraint)
	}
	q.args = args
	q.canonical, err = schema.Canonical(args)
	return q, err
}

// verifier returns a tool that may be asked behind everybody's back.
func (e *Executor) verifier(name string) (*Route, error) {
	route, ok := e.Registry.Lookup(name)
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no tool %s at the moment", name)
	case route.Tool.Backend == BuiltIn:
		return nil, fmt.Errorf("the built-in tool %s verifies nothing", name)
	case route.Tool.Effect != tool.ReadOnly:
		return nil, fmt.Errorf("the tool %s is %s; only a read_only tool is asked", name, route.Tool.Effect)
	default:
		return route, nil
	}
}

// subject is the call as a verification sees it.
func (c *call) subject() interpret.Subject {
	return interpret.Subject{
		ID: c.req.GetToolUseId(), Conversation: c.req.GetConversationId(), Turn: c.req.GetTurnId(),
		IdempotencyKey: c.idempotencyKey(), Args: c.args,
	}
}
