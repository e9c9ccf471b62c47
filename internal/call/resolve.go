package call

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/call/verify"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Limits on what an operator may write, in characters.
const (
	maxReason        = 500
	maxOperator      = 128
	maxResolvedText  = 8000
	maxResolvedError = explain.MessageChars
)

// settler is who settles a call: a user, as the front has verified it, and the name
// that it gives itself. The zero value is nobody: a verification did.
type settler struct{ user, claimed string }

// settledBy is the settler of a request by a user.
func (u unsettled) settledBy(user, claimed string) settler {
	by := settler{user, explain.Cleaned(u.route.Secrets, oneLine(claimed), maxOperator)}
	if by.claimed == by.user {
		by.claimed = ""
	}
	return by
}

// Resolve settles one unknown call by hand, for a user whom the front has
// verified, or only says what it would be then. Its errors are Faults, or that of ctx.
func (e Settlements) Resolve(ctx context.Context, key tool.CallID, user string, req *sidecallv1.ResolveExecutionRequest) (*sidecallv1.Execution, error) {
	if err := checkResolution(req); err != nil {
		return nil, err
	}
	lease := e.Catalog.Lease()
	defer lease.Release()
	u, err := e.unknownCall(ctx, lease.Snapshot, key)
	if err != nil {
		return nil, err
	}
	if req.GetEpoch() != 0 && req.GetEpoch() != u.record.Epoch {
		return nil, fault(NotNow,
			"epoch: the call is at epoch %d, and %d was looked at: it has run again since; look at it anew", u.record.Epoch, req.GetEpoch())
	}
	state, a := u.settledByHand(u.settledBy(user, req.GetResolvedBy()), req)
	if n, limit := utf8.RuneCountInString(a.Text), u.route.Tool.Policy.MaxOutputChars; req.GetContent() != "" && limit > 0 && n > limit {
		return nil, fault(Invalid, "content: makes a result of %d characters, and %s returns at most %d", n, u.record.Tool, limit)
	}
	if req.GetValidateOnly() {
		would := result.Execution(u.record)
		would.State, would.Result = result.State(state), rendered(a)
		return would, nil
	}
	settled, err := e.settleAs(ctx, u, state, a)
	if err := e.unlessSettled(ctx, key, settled, err, unresolved); err != nil {
		return nil, err
	}
	u.record.State = state
	return e.executionOr(ctx, u.record, key), nil
}

// Verify asks the configured verification what became of an unknown call, and
// settles it when the request, of a user as in Resolve, says so and the answer
// decides it. Its errors are Faults, or that of ctx.
func (e Settlements) Verify(ctx context.Context, key tool.CallID, user string, req *sidecallv1.VerifyExecutionRequest) (*sidecallv1.VerifyExecutionResponse, error) {
	if err := checkOperator(req.GetResolvedBy()); err != nil {
		return nil, err
	}
	lease := e.Catalog.Lease()
	defer lease.Release()
	u, err := e.unknownCall(ctx, lease.Snapshot, key)
	if err != nil {
		return nil, err
	}
	if err := e.takeArguments(ctx, u, req.GetArgumentsJson()); err != nil {
		return nil, err
	}
	by := u.settledBy(user, req.GetResolvedBy())
	found := e.look(ctx, u.resolved, u.record.Epoch, verify.NotBefore(u.record, u.route))
	res := u.verdict(found, by)
	if req.GetSettle() && (found.Verdict == verify.Done || found.Verdict == verify.NotRun) {
		settled, err := e.settleFound(ctx, u, found, by)
		if err := e.unlessSettled(ctx, key, settled, err, unresolved); err != nil {
			return nil, err
		}
		res.Settled = true
		u.record.State = dedupe.Done
		if found.Verdict == verify.NotRun {
			u.record.State = dedupe.NotRun
		}
	}
	res.Execution = e.executionOr(ctx, u.record, key)
	var fitting result.Fitting // both are the result, perhaps
	for i, one := range []*response{res.GetExecution().GetResult(), res.GetResult()} {
		if one != nil {
			fitting.Add(i, key, one)
		}
	}
	return res, nil
}

// verdict says in the operator's terms what was found.
func (u unsettled) verdict(found verify.Finding, by settler) *sidecallv1.VerifyExecutionResponse {
	with := u.route.Verification.Tool
	switch found.Verdict {
	case verify.Done:
		return &sidecallv1.VerifyExecutionResponse{
			Verdict:     sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_DONE,
			Explanation: with + " shows that the call has happened", Result: rendered(u.happened(found, by)),
		}
	case verify.TooEarly:
		return &sidecallv1.VerifyExecutionResponse{
			Verdict: sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_TOO_EARLY, NotBefore: timestamppb.New(verify.NotBefore(u.record, u.route)),
			Explanation: fmt.Sprintf("%s does not show the call, which may still be under way: ask again after %s", with, tool.RoundTime(found.Wait)),
		}
	case verify.NotRun:
		return &sidecallv1.VerifyExecutionResponse{
			Verdict:     sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_NOT_RUN,
			Explanation: fmt.Sprintf("%s does not show the call, %s or more after its end", with, u.route.Verification.NotRunAfter),
		}
	case verify.Inconclusive:
		why := ""
		if found.Why != nil {
			why = ": " + explain.Cleaned(u.route.Secrets, found.Why.Error(), explain.MessageChars)
		}
		return &sidecallv1.VerifyExecutionResponse{
			Verdict: sidecallv1.VerificationVerdict_VERIFICATION_VERDICT_INCONCLUSIVE, Explanation: with + " does not decide it" + why,
		}
	}
	panic(fmt.Sprintf("a verification has found %d", found.Verdict))
}

// takeArguments gives a call the arguments that it had: those that are sent, else those that its
// record has. The fingerprint tells whether they are the same.
func (e Settlements) takeArguments(ctx context.Context, u unsettled, text string) error {
	v, given := u.route.Verification, text != ""
	if !given {
		text = keptArguments(u.record)
	}
	switch {
	case v == nil:
		return fault(NotNow,
			"no verification is configured for the tool %s: add verify to it, or find out by other means and resolve the call by hand", u.record.Tool)
	case text == "" && v.Program.ReadsArgs():
		return fault(Invalid,
			"arguments_json: the verification reads the call's arguments, and they are not kept: send them, as the agent's conversation has them")
	case text == "" || !given && !v.Program.ReadsArgs():
		return nil
	}
	u.Arguments = text
	refs, lost := e.dereference(ctx, u.resolved)
	if lost != nil && v.Program.ReadsArgs() {
		return fault(Invalid, "arguments_json: %s %s: what they refer to cannot be read, so the verification cannot ask; find out by other means and resolve the call by hand",
			lost.Error.Field, lost.Error.Constraint)
	}
	violations, err := new(arguments).read(ctx, u.resolved, refs)
	switch {
	case err != nil:
		return err
	case recorded{u.resolved, dedupe.Admission{Record: u.record}}.isOf(): // whatever the schema says of them now
		return nil
	case !given: // something of them is sensitive, or their schema reads them otherwise by now
		return fault(Invalid, "arguments_json: the verification reads the call's arguments, of which not all are kept: send them, as the agent's conversation has them")
	case len(violations) > 0:
		return fault(Invalid, "arguments_json: %s %s. %s", violations[0].Field, violations[0].Constraint, violations[0].Hint)
	}
	return fault(Invalid, "arguments_json: the call had other arguments; send those that the agent's conversation has")
}

// keptArguments are those that the record of a call has; empty where that is not all of them.
func keptArguments(record dedupe.Record) string {
	kept := detailsOf(record)
	if kept.GetArgumentsCut() {
		return ""
	}
	return kept.GetArgumentsJson()
}

// settled is the record of a call as it is in the store, for somebody who would change it.
func (e Records) settled(ctx context.Context, key tool.CallID) (dedupe.Record, error) {
	known, err := e.Dedupe.Known(ctx, dedupe.Note{Key: key})
	switch {
	case err != nil:
		return known.Record, notLookedUp(ctx, err)
	case known.Journaled:
		return known.Record, fault(NotNow, "a settlement of the call waits in this sidecar's journal: look again when the store has taken it")
	}
	return known.Record, nil
}

// unknownCall returns an unknown call, with its record; or why it is none.
func (e Settlements) unknownCall(ctx context.Context, snapshot *catalog.Snapshot, key tool.CallID) (unsettled, error) {
	record, err := e.settled(ctx, key)
	if err != nil {
		return unsettled{}, err
	}
	if record.State == dedupe.NotRun && e.told(record).State == dedupe.Unknown {
		return unsettled{}, fault(NotNow,
			"the call %s may have run, when its tool could be repeated: send it again with its id, which runs nothing, and resolve it then", tool.Quote(key.ID))
	}
	if err := notUnknown(key, record); err != nil {
		return unsettled{}, err
	}
	if e.Dedupe.AtWork(key) {
		// Its lease is over, after an outage perhaps, and it is at work.
		return unsettled{}, fault(NotNow,
			"this sidecar is running the call %s right now: wait for its result", tool.Quote(key.ID))
	}
	c := newCall(snapshot, Request{Use: tool.Use{Key: key, Tool: record.Tool}})
	return unsettled{c.spokenOf(record.Effect), record}, nil // also where its tool is gone
}

// notUnknown says what a call is that is not unknown, and what to do.
func notUnknown(key tool.CallID, record dedupe.Record) error {
	id := tool.Quote(key.ID)
	switch record.State {
	case dedupe.Unknown:
		return nil
	case dedupe.Absent:
		return neverStarted(key)
	case dedupe.Claimed:
		return fault(NotNow,
			"the call %s is claimed: %s is running it, and its lease runs until %s; wait for its result", id, record.Owner, record.LeaseUntil.UTC().Format(time.RFC3339))
	case dedupe.NotRun:
		return fault(NotNow, "the call %s is not_run already: it had no effect, or its tool may be repeated; nothing is to be settled, the same id may be sent again", id)
	case dedupe.Held:
		return fault(NotNow, "the call %s is held: nothing was sent, and a person allows or denies it; nothing is to be settled, see ListHeld", id)
	case dedupe.Done, dedupe.Closed:
		return fault(NotNow,
			"the call %s is %s already, since %s, and that is final: GetExecution has its result", id, record.State, record.FinishedAt.UTC().Format(time.RFC3339))
	}
	panic(fmt.Sprintf("a record in no state: %s", record.State))
}

// unlessSettled says why what somebody has decided of a call was not written down; nil when it was.
// instead says so of one that has changed.
func (e Settlements) unlessSettled(ctx context.Context, key tool.CallID, settled bool, err error,
	instead func(context.Context, tool.CallID, dedupe.Record) error,
) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case dedupe.IsCorrupt(err):
		return notLookedUp(ctx, err)
	case err != nil:
		return fault(StoreDown, "the store is down: the call may be settled or not; look at it when the store is back, then send the request again if it still waits for that")
	case settled:
		return nil
	}
	record, err := e.Dedupe.Lookup(ctx, key)
	if err != nil {
		return notLookedUp(ctx, err)
	}
	return instead(ctx, key, record)
}

// unresolved says why a resolution has changed nothing, by what the call is now.
func unresolved(_ context.Context, key tool.CallID, record dedupe.Record) error {
	if err := notUnknown(key, record); err != nil {
		return err
	}
	return fault(Changed, "the call has changed in this moment, and is unknown again at epoch %d: look at it anew", record.Epoch)
}

// executionOr is the record of a call as it is now; where the store does not
// tell, as it is known: what was asked for is done by then.
func (e Settlements) executionOr(ctx context.Context, known dedupe.Record, key tool.CallID) *sidecallv1.Execution {
	now, err := e.Execution(ctx, key)
	if err != nil {
		return result.Execution(known)
	}
	return now
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
		return fault(Invalid, "state: must be EXECUTION_STATE_DONE (it has happened) or EXECUTION_STATE_NOT_RUN (it has not, and will not)")
	case oneLine(req.GetReason()) == "":
		return fault(Invalid, "reason: is required: say how it is known, for whoever reads the record later")
	case reason > maxReason:
		return fault(Invalid, "reason: %d characters, at most %d are taken", reason, maxReason)
	case !done && (req.GetContent() != "" || req.GetIsError()):
		return fault(Invalid, "content: only a call that is DONE has a result")
	case content > limit:
		return fault(Invalid, "content: %d characters, at most %d are taken", content, limit)
	case req.GetEpoch() < 0:
		return fault(Invalid, "epoch: must not be negative")
	}
	return checkOperator(req.GetResolvedBy())
}

func checkOperator(name string) error {
	if n := utf8.RuneCountInString(name); n > maxOperator {
		return fault(Invalid, "resolved_by: %d characters, at most %d are taken", n, maxOperator)
	}
	return nil
}

// settledByHand is what an operator makes of an unknown call: its state, and
// the result that duplicates get.
func (u unsettled) settledByHand(by settler, req *sidecallv1.ResolveExecutionRequest) (dedupe.State, *answer) {
	secrets := u.route.Secrets
	made := &sidecallv1.Resolution{
		By: by.user, ClaimedBy: by.claimed, Reason: explain.Cleaned(secrets, oneLine(req.GetReason()), maxReason),
		At: timestamppb.Now(), State: req.GetState(),
	}
	content := explain.Cleaned(secrets, req.GetContent(), maxResolvedText)
	name := u.record.Tool
	a := &answer{For: result.For{ID: u.Key.ID}}
	state := dedupe.Done
	switch {
	case req.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN:
		state, a = dedupe.NotRun, u.lastWords()
	case req.GetIsError():
		a = a.Refused(tool.Error{
			Code: tool.CodeUnrecoverable, Constraint: fmt.Sprintf("settled by hand as failed, by %s: %s", decider(made), made.GetReason()),
			Received: content, Hint: fmt.Sprintf("Do not call %s again for this: it has failed for good. Change the approach, or tell the user.", name),
		}, 0)
		a.Attempts = u.record.Attempts
	default:
		a.Text = fmt.Sprintf("%s has happened. Its own answer was lost; this was settled by hand, by %s: %s", name, decider(made), made.GetReason())
		if content != "" {
			a.Text += "\n" + content
		}
	}
	a.Resolution = made
	return state, a
}

// oneLine makes one line of what somebody has typed.
func oneLine(text string) string {
	return strings.Join(strings.Fields(output.Clean([]byte(text))), " ")
}
