package server

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/output"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/schema"
	"github.com/sidecall/sidecall/tool"
)

// Limits on what an operator may write, in characters.
const (
	maxReason        = 500
	maxOperator      = 128
	maxResolvedText  = 8000
	maxResolvedError = messageLimit
)

// unnamedOperator stands for one who did not say who it is.
const unnamedOperator = "(unnamed)"

// Operator is the OperatorService of a sidecar: people settle calls of which
// nobody knows whether they ran.
type Operator struct {
	sidecallv1.UnimplementedOperatorServiceServer

	Executor *Executor
	Drain    *Drain
}

// ResolveExecution settles one unknown call by hand.
func (o *Operator) ResolveExecution(ctx context.Context, req *sidecallv1.ResolveExecutionRequest) (*sidecallv1.ResolveExecutionResponse, error) {
	leave, err := o.Drain.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := checkResolution(req); err != nil {
		return nil, err
	}
	c, record, err := o.unknown(ctx, req)
	if err != nil {
		return nil, err
	}
	if req.GetEpoch() != 0 && req.GetEpoch() != record.Epoch {
		return nil, status.Errorf(codes.FailedPrecondition,
			"epoch: the call is at epoch %d, and %d was looked at: it has run again since; look at it anew", record.Epoch, req.GetEpoch())
	}
	state, res := c.settledByHand(req, record)
	if n, limit := utf8.RuneCountInString(res.GetContent()), c.route.Tool.Policy.MaxOutputChars; req.GetContent() != "" && !res.GetIsError() && limit > 0 && n > limit {
		return nil, status.Errorf(codes.InvalidArgument, "content: makes a result of %d characters, and %s returns at most %d", n, record.Tool, limit)
	}
	settled, err := o.Executor.conclude(ctx, c, record, state, res)
	switch {
	case err != nil:
		return nil, unsettledStatus(ctx)
	case !settled:
		return nil, o.changed(ctx, c)
	}
	record.State = state
	return &sidecallv1.ResolveExecutionResponse{Execution: o.execution(ctx, c, record)}, nil
}

// VerifyExecution asks the configured verification what became of an unknown
// call.
func (o *Operator) VerifyExecution(ctx context.Context, req *sidecallv1.VerifyExecutionRequest) (*sidecallv1.VerifyExecutionResponse, error) {
	leave, err := o.Drain.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := checkOperator(req.GetResolvedBy()); err != nil {
		return nil, err
	}
	c, record, err := o.unknown(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := c.takeArguments(req.GetArgumentsJson(), record); err != nil {
		return nil, err
	}
	c.operator = c.cleaned(cleanLine(req.GetResolvedBy()), maxOperator)
	found := o.Executor.ask(ctx, c, record.Epoch)
	res := c.verification(found, record)
	if req.GetSettle() && (res.GetVerdict() == verdictDone || res.GetVerdict() == verdictNotRun) {
		settled, err := o.Executor.settleVerified(ctx, c, record, found)
		switch {
		case err != nil:
			return nil, unsettledStatus(ctx)
		case !settled:
			return nil, o.changed(ctx, c)
		}
		res.Settled = true
		record.State = dedupe.Done
		if res.GetVerdict() == verdictNotRun {
			record.State = dedupe.NotRun
		}
	}
	res.Execution = o.execution(ctx, c, record)
	return res, nil
}

const (
	verdictInconclusive = sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_INCONCLUSIVE
	verdictDone         = sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_DONE
	verdictNotRun       = sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_NOT_RUN
	verdictTooEarly     = sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_TOO_EARLY
)

// verification says in the operator's terms what was found.
func (c *call) verification(found finding, record dedupe.Record) *sidecallv1.VerifyExecutionResponse {
	with := c.route.Verification.Tool
	notBefore := c.notRunFrom(record)
	switch {
	case found.verdict == interpret.Happened:
		return &sidecallv1.VerifyExecutionResponse{
			Verdict: verdictDone, Explanation: with + " shows that the call has happened", Result: c.happened(found),
		}
	case found.verdict == interpret.NotThere && found.asked.Before(notBefore):
		return &sidecallv1.VerifyExecutionResponse{
			Verdict: verdictTooEarly, NotBefore: timestamppb.New(notBefore),
			Explanation: fmt.Sprintf("%s does not show the call, which may still be under way: ask again after %s", with, round(notBefore.Sub(found.asked))),
		}
	case found.verdict == interpret.NotThere:
		return &sidecallv1.VerifyExecutionResponse{
			Verdict: verdictNotRun, Explanation: fmt.Sprintf("%s does not show the call, %s or more after its end", with, c.route.Verification.NotRunAfter),
		}
	default:
		why := ""
		if found.why != nil {
			why = ": " + c.cleaned(found.why.Error(), messageLimit)
		}
		return &sidecallv1.VerifyExecutionResponse{Verdict: verdictInconclusive, Explanation: with + " does not decide it" + why}
	}
}

// takeArguments gives a call the arguments that it had. They are not stored;
// the fingerprint tells whether they are the same.
func (c *call) takeArguments(text string, record dedupe.Record) error {
	v := c.route.Verification
	switch {
	case v == nil:
		return status.Errorf(codes.FailedPrecondition,
			"no verification is configured for the tool %s: add verify to it, or find out by other means and resolve the call by hand", record.Tool)
	case text == "" && v.Program.ReadsArgs():
		return status.Error(codes.InvalidArgument,
			"arguments_json: the verification reads the call's arguments, and they are not stored: send them, as the agent's conversation has them")
	case text == "":
		return nil
	}
	c.req.ArgumentsJson = text
	args, violations := c.parse()
	if len(violations) > 0 {
		return status.Errorf(codes.InvalidArgument, "arguments_json: %s %s. %s", violations[0].Field, violations[0].Constraint, violations[0].Hint)
	}
	canonical, err := schema.Canonical(args)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "arguments_json: %v", err)
	}
	if schema.Fingerprint(record.Tool, canonical) != record.Fingerprint {
		return status.Error(codes.InvalidArgument, "arguments_json: the call had other arguments; send those that the agent's conversation has")
	}
	c.args = args
	return nil
}

// identified is what every request about one call holds.
type identified interface {
	GetConversationId() string
	GetTurnId() string
	GetToolUseId() string
}

// unknown returns an unknown call, with its record; or why it is none.
func (o *Operator) unknown(ctx context.Context, req identified) (*call, dedupe.Record, error) {
	c := &call{tenant: tenant(ctx), start: time.Now(), registry: o.Executor.Registry, req: &sidecallv1.ExecuteToolRequest{
		ToolUseId: req.GetToolUseId(), ConversationId: req.GetConversationId(), TurnId: req.GetTurnId(),
	}}
	if c.req.GetToolUseId() == "" {
		return nil, dedupe.Record{}, status.Error(codes.InvalidArgument, "tool_use_id: is required")
	}
	for name, id := range map[string]string{"tool_use_id": req.GetToolUseId(), "conversation_id": req.GetConversationId(), "turn_id": req.GetTurnId()} {
		if len(id) > maxIDBytes {
			return nil, dedupe.Record{}, status.Errorf(codes.InvalidArgument, "%s: %d bytes, at most %d are taken", name, len(id), maxIDBytes)
		}
	}
	record, err := o.Executor.Dedupe.Lookup(ctx, c.key())
	if err != nil {
		return nil, dedupe.Record{}, storeStatus(ctx)
	}
	if o.Executor.Dedupe.Journaled(c.key()) {
		return nil, dedupe.Record{}, status.Error(codes.FailedPrecondition,
			"a settlement of the call waits in this sidecar's journal: look again when the store has taken it")
	}
	if err := notUnknown(c, record); err != nil {
		return nil, dedupe.Record{}, err
	}
	if o.Executor.Dedupe.AtWork(c.key()) {
		// Its lease is over, after an outage perhaps, and it is at work.
		return nil, dedupe.Record{}, status.Errorf(codes.FailedPrecondition,
			"this sidecar is running the call %s right now: wait for its result", quote(req.GetToolUseId()))
	}
	c.req.ToolName = record.Tool
	var registered bool
	if c.route, registered = o.Executor.Registry.Lookup(record.Tool); !registered {
		// The tool is gone; its calls can be settled all the same.
		c.route = &Route{Tool: tool.Tool{Name: record.Tool, Effect: record.Effect}}
	}
	return c, record, nil
}

// notUnknown says what a call is that is not unknown, and what to do.
func notUnknown(c *call, record dedupe.Record) error {
	id := quote(c.req.GetToolUseId())
	switch record.State {
	case dedupe.Unknown:
		return nil
	case dedupe.Absent:
		return status.Errorf(codes.NotFound,
			"no record of tool_use_id %s with this conversation_id and turn_id: it was never started here, or its retention is over", id)
	case dedupe.Claimed:
		return status.Errorf(codes.FailedPrecondition,
			"the call %s is claimed: %s is running it, and its lease runs until %s; wait for its result", id, record.Owner, record.LeaseUntil.UTC().Format(time.RFC3339))
	case dedupe.NotRun:
		return status.Errorf(codes.FailedPrecondition, "the call %s is not_run already: it had no effect, or its tool may be repeated; nothing is to be settled, the same id may be sent again", id)
	default:
		return status.Errorf(codes.FailedPrecondition,
			"the call %s is %s already, since %s, and that is final: GetExecution has its result", id, record.State, record.FinishedAt.UTC().Format(time.RFC3339))
	}
}

// changed says what a call is now that was unknown a moment ago.
func (o *Operator) changed(ctx context.Context, c *call) error {
	record, err := o.Executor.Dedupe.Lookup(ctx, c.key())
	if err != nil {
		return storeStatus(ctx)
	}
	if err := notUnknown(c, record); err != nil {
		return err
	}
	return status.Errorf(codes.Aborted, "the call has changed in this moment, and is unknown again at epoch %d: look at it anew", record.Epoch)
}

// execution is the record of a call as it is now; where the store does not tell,
// as it is known: what was asked for is done by then.
func (o *Operator) execution(ctx context.Context, c *call, known dedupe.Record) *sidecallv1.Execution {
	service := &Service{Executor: o.Executor}
	now, err := service.GetExecution(ctx, &sidecallv1.GetExecutionRequest{
		ConversationId: c.req.GetConversationId(), TurnId: c.req.GetTurnId(), ToolUseId: c.req.GetToolUseId(),
	})
	if err != nil {
		return protoExecution(known)
	}
	return now
}

// unsettledStatus is for a store that has not said whether it took a resolution.
func unsettledStatus(ctx context.Context) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unavailable, "the store is down: the call may be settled or not; look at it when the store is back, then send the request again if it is still unknown")
}

// checkResolution refuses what cannot be written down.
func checkResolution(req *sidecallv1.ResolveExecutionRequest) error {
	done := req.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_DONE
	limit := maxResolvedText
	if req.GetIsError() {
		limit = maxResolvedError
	}
	content, reason := utf8.RuneCountInString(req.GetContent()), utf8.RuneCountInString(req.GetReason())
	switch {
	case !done && req.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN:
		return status.Error(codes.InvalidArgument, "state: must be EXECUTION_STATE_DONE (it has happened) or EXECUTION_STATE_NOT_RUN (it has not, and will not)")
	case cleanLine(req.GetReason()) == "":
		return status.Error(codes.InvalidArgument, "reason: is required: say how it is known, for whoever reads the record later")
	case reason > maxReason:
		return status.Errorf(codes.InvalidArgument, "reason: %d characters, at most %d are taken", reason, maxReason)
	case !done && (req.GetContent() != "" || req.GetIsError()):
		return status.Error(codes.InvalidArgument, "content: only a call that is DONE has a result")
	case content > limit:
		return status.Errorf(codes.InvalidArgument, "content: %d characters, at most %d are taken", content, limit)
	case req.GetEpoch() < 0:
		return status.Error(codes.InvalidArgument, "epoch: must not be negative")
	}
	return checkOperator(req.GetResolvedBy())
}

func checkOperator(name string) error {
	if n := utf8.RuneCountInString(name); n > maxOperator {
		return status.Errorf(codes.InvalidArgument, "resolved_by: %d characters, at most %d are taken", n, maxOperator)
	}
	return nil
}

// settledByHand is what an operator makes of an unknown call: its state, and
// the result that duplicates get.
func (c *call) settledByHand(req *sidecallv1.ResolveExecutionRequest, record dedupe.Record) (dedupe.State, *response) {
	made := &sidecallv1.Resolution{
		By: c.cleaned(cleanLine(req.GetResolvedBy()), maxOperator), Reason: c.cleaned(cleanLine(req.GetReason()), maxReason),
		At: timestamppb.Now(), State: req.GetState(),
	}
	if made.GetBy() == "" {
		made.By = unnamedOperator
	}
	content := c.cleaned(req.GetContent(), maxResolvedText)
	name := record.Tool
	var res *response
	state := dedupe.Done
	switch {
	case req.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN:
		state, res = dedupe.NotRun, c.lastWords(record)
	case req.GetIsError():
		res = c.failed(tool.Error{
			Code: tool.CodeUnrecoverable, Constraint: fmt.Sprintf("settled by hand as failed, by %s: %s", made.GetBy(), made.GetReason()),
			Received: content, Hint: fmt.Sprintf("Do not call %s again for this: it has failed for good. Change the approach, or tell the user.", name),
		}, tool.Failure{Code: tool.CodeUnrecoverable})
		res.Recovery.Attempts = int32(min(record.Attempts, 1<<20))
	default:
		text := fmt.Sprintf("%s has happened. Its own answer was lost; this was settled by hand, by %s: %s", name, made.GetBy(), made.GetReason())
		if content != "" {
			text += "\n" + content
		}
		res = &response{ToolUseId: c.req.GetToolUseId(), Outcome: sidecallv1.Outcome_OUTCOME_OK, Content: text}
	}
	if state == dedupe.Done {
		res.Duration = durationpb.New(max(0, record.FinishedAt.Sub(record.StartedAt)))
	}
	res.Resolution = made
	return state, res
}

// cleanLine makes one line of what somebody has typed.
func cleanLine(text string) string {
	return strings.Join(strings.Fields(output.Clean([]byte(text))), " ")
}

// cleaned takes out what a text must not show: control characters, and the
// secrets of the tool's backend.
func (c *call) cleaned(text string, limit int) string {
	text = output.Clean([]byte(text)) // first: a secret may be broken up by what is cleaned away
	if c.route.Secrets != nil {
		text = c.route.Secrets.Replace(text)
	}
	return shorten(text, limit)
}

// shortFingerprint is enough of a fingerprint to tell two calls apart.
func shortFingerprint(f [32]byte) string { return hex.EncodeToString(f[:6]) }
