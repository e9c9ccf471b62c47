package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/call/verify"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// byVerification is who settled a call that nobody had to look at.
const byVerification = "verification"

// look finds out what became of a call of a claim; notBefore as in verify.Case.
func (e Settlements) look(ctx context.Context, c resolved, epoch int64, notBefore time.Time) verify.Finding {
	return e.verifier.Look(ctx, verify.Case{
		Key: c.Key, Epoch: epoch, About: c.about(), Route: c.route, Snapshot: c.snapshot, NotBefore: notBefore,
		Client: c.Client,
	})
}

// ask makes one attempt at a read-only tool, for a look.
func (e *Executor) ask(ctx context.Context, q verify.Question) (answer interpret.Reading, why, err error) {
	var taken seats
	if !taken.takeTarget(q.Route) {
		taken.leave()
		return answer, nil, errors.New(taken.full)
	}
	defer taken.leave()
	runner := newRunner(q.Route, q.Key, q.Args, q.Canonical, q.MaxBytes)
	runner.trace, runner.pass, runner.invocation.Client = q.Trace, taken.pass, q.Client
	var load limit.Load
	load.Of(e.Bytes)
	defer load.Release()
	runner.invocation.Memory = (*replyMemory)(&load)
	made := runner.attempt(ctx, 1)
	if failure := made.reading.Failure; failure != nil {
		why = failure.Err
	}
	return made.reading, why, nil
}

// verify takes a second look at a call that has just ended unknown, as far as
// its time allows: that it has happened is certain at once.
func (e *Executor) verify(ctx context.Context, c *admitted, end ending) ending {
	if c.route.Verification == nil || ctx.Err() != nil {
		return end
	}
	found := e.Settlements().look(ctx, c.resolved, c.claim.Record().Epoch, time.Time{})
	switch found.Verdict {
	case verify.Done:
		return ending{answer: unsettled{resolved: c.resolved}.happened(found, settler{}), state: dedupe.Done}
	case verify.TooEarly:
		end.answer.Hints = append(end.answer.Hints, fmt.Sprintf("Sidecall has asked %s already: it does not show the call, which may still be under way.", c.route.Verification.Tool))
		end.answer.RetryAfter = c.route.Verification.NotRunAfter
	case verify.Inconclusive, verify.NotRun:
	}
	return end
}

// lookAgain asks what became of a call that is recorded as unknown. When that
// can be told now the record is settled so, or somebody else has done it, and
// the request is to be admitted anew: it then gets the result, or runs. Nobody
// waits for it in another's seat. tooEarly is for how much longer it proves
// nothing that the effect is not there.
func (e *Executor) lookAgain(ctx context.Context, c resolved, unknown dedupe.Admission) (settled bool, tooEarly time.Duration) {
	if c.route.Verification == nil || c.route.Verification.Program.ReadsArgs() && !c.now.Checked || unknown.Journaled || ctx.Err() != nil || !c.stay.seats.wait(e.Waiting) {
		return false, 0
	}
	record := unknown.Record
	found := e.Settlements().look(ctx, c, record.Epoch, verify.NotBefore(record, c.route))
	if found.Verdict != verify.Done && found.Verdict != verify.NotRun {
		return false, found.Wait
	}
	// Superseded or not: somebody knows more than we did.
	_, err := e.Settlements().settleFound(ctx, unsettled{c, record}, found, settler{})
	c.log.cause = err
	return err == nil, 0
}

// unsettled is an unknown or a held call with its record, as it was looked at, which somebody
// settles.
type unsettled struct {
	resolved

	record dedupe.Record
}

// settleFound records what a look has found of a call, by an operator or, when
// there is none, by the verification itself. False when the record is no longer
// the one that was looked at.
func (e Settlements) settleFound(ctx context.Context, u unsettled, found verify.Finding, by settler) (bool, error) {
	if found.Verdict == verify.NotRun {
		return e.settleAs(ctx, u, dedupe.NotRun, u.absent(by))
	}
	return e.settleAs(ctx, u, dedupe.Done, u.happened(found, by))
}

// happened is the result of a call that a look has found to be done.
func (u unsettled) happened(found verify.Finding, by settler) *answer {
	with := u.route.Verification.Tool
	reason := with + " shows that the call has happened"
	reply := found.Result
	if reply == nil {
		reply = &tool.Reply{Text: fmt.Appendf(nil, "%s has happened: %s shows it. Its own answer was lost.", u.route.Tool.Name, with)}
	}
	policy := &u.route.Tool.Policy
	a := &answer{For: u.result(), Success: result.Success{Reading: &interpret.Reading{Reply: *reply}, Show: output.Input{
		Secrets: secretsOf(u.route), Limit: u.outputLimit(), Strategy: policy.OutputStrategy,
		Untrusted: found.Result != nil && (policy.Untrusted || found.Untrusted),
	}}}
	a.Foreign = found.Result != nil && found.Untrusted
	a.Notices = []string{fmt.Sprintf("The answer of %s itself was lost; %s.", u.route.Tool.Name, reason)}
	a.Resolution = u.resolution(reason, dedupe.Done, by)
	return a
}

// absent is what a record keeps of a call that a look has found not to have run.
func (u unsettled) absent(by settler) *answer {
	reason := fmt.Sprintf("%s does not show the call, %s or more after its end", u.route.Verification.Tool, u.route.Verification.NotRunAfter)
	a := u.lastWords()
	a.Resolution = u.resolution(reason, dedupe.NotRun, by)
	return a
}

// lastWords is what is recorded of an unknown call, as its first answer.
func (u unsettled) lastWords() *answer {
	a := recorded{u.resolved, dedupe.Admission{Record: u.record}}.unknownAgain()
	a.Replayed, a.Recorded = false, true
	return a
}

func (u unsettled) resolution(reason string, state dedupe.State, by settler) *sidecallv1.Resolution {
	return &sidecallv1.Resolution{
		By: cmp.Or(by.user, byVerification), ClaimedBy: by.claimed, Reason: reason, At: timestamppb.Now(), State: result.State(state),
		VerifiedWith: u.route.Verification.Tool,
	}
}

// settleAs settles the record of an unknown call, as it was looked at, and writes
// down who did. False when it is no longer that one.
func (e Settlements) settleAs(ctx context.Context, u unsettled, as dedupe.State, a *answer) (bool, error) {
	a.Recorded = true
	res := rendered(a)
	res.Duration = durationpb.New(max(0, u.record.FinishedAt.Sub(u.record.StartedAt))) // until it is settled is no part of it
	if last, err := result.Recorded(u.record); err == nil {
		res.Traceparent = last.GetTraceparent() // who settles it has not executed it
		u.record.Details = toldBefore(u.record.Details, provider.Text(last))
	}
	encoded, err := proto.Marshal(res)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), SettleTimeout)
	defer cancel()
	verdict, err := e.Dedupe.Resolve(ctx, dedupe.Listed{Key: u.Key, Record: u.record}, as, encoded)
	if err == nil && verdict != dedupe.Settled {
		return false, nil
	}
	e.tellResolved(ctx, u.Key, u.route.Tool.Name, u.record.Epoch, res.GetResolution(), err)
	return err == nil, err
}

// tellResolved tells operators of a resolution; lost is why the store did not say
// that it has it. It may have it all the same, and the record forgets who made
// it when the call is claimed again.
func (e Settlements) tellResolved(ctx context.Context, key tool.CallID, toolName string, epoch int64, made *sidecallv1.Resolution, lost error) {
	kind := "operator"
	if made.GetVerifiedWith() != "" {
		kind = byVerification
	}
	to := dedupe.Done
	if made.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_NOT_RUN {
		to = dedupe.NotRun
	}
	e.Recorder.Resolved(ctx, telemetry.Resolution{
		By: made.GetBy(), Claimed: made.GetClaimedBy(), Kind: kind, Reason: made.GetReason(), VerifiedWith: made.GetVerifiedWith(),
		Tool: toolName, CallID: key, From: dedupe.Unknown.String(), To: to.String(), Epoch: epoch, Unconfirmed: lost,
	})
}
