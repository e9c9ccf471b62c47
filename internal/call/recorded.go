package call

import (
	"context"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// recorded is a call with what is recorded of it, or of another that has its effect: it is
// answered by that, and not made.
type recorded struct {
	resolved
	dedupe.Admission
}

// recordedAs is a call of which something is known that was only looked at.
func recordedAs(c *call, known dedupe.Known) recorded {
	effect := known.Record.Effect
	if known.Record.State == dedupe.Absent {
		effect = tool.NonIdempotent
	}
	return recorded{c.spokenOf(effect), dedupe.Admission{Record: known.Record, Journaled: known.Journaled}}
}

// answer is the result of a call that is not to run.
func (r recorded) answer() *answer {
	switch r.Verdict {
	case dedupe.Replay:
		return r.unlessJournaled(r.replay())
	case dedupe.OutcomeUnknown:
		r.open()
		return r.unlessJournaled(r.sayWhatIsBlocked(r.unknownAgain()))
	case dedupe.Mismatch:
		return r.result().Refused(r.subject().Reused(r.Record), 0)
	case dedupe.InFlight:
		return r.result().Refused(explain.InProgress(r.Key.ID), explain.WhenInProgress)
	case dedupe.AwaitsApproval:
		r.open()
		return r.held()
	case dedupe.DuplicateEffect:
		return r.duplicate()
	case dedupe.EffectInFlight:
		return r.effectInProgress()
	case dedupe.EffectUnknown:
		return r.effectUnknown()
	case dedupe.Won, dedupe.MayRun, dedupe.Exceeded: // of which others have said why
	}
	panic(fmt.Sprintf("a call is answered without being run: %s", r.Verdict))
}

// open says that a person is needed for the call, as it is recorded.
func (r recorded) open() {
	record := r.Record
	r.log.open = &record
}

// replay tells the recorded result of a call that is done.
func (r recorded) replay() *answer {
	res, err := result.Recorded(r.Record)
	if err != nil {
		r.log.cause = err
		return r.result().Refused(explain.LostResult(r.route.Tool.Name), 0)
	}
	return result.Replay(res)
}

// unknownAgain answers a call that may or may not have happened, in the words in
// which that was first found out when there are any.
func (r recorded) unknownAgain() *answer {
	if len(r.Record.Result) > 0 {
		return r.replay()
	}
	a := r.unknown(&tool.Failure{
		Code: tool.CodeOutcomeUnknown, Evidence: tool.Ambiguous,
		Constraint: unrecorded(r.Record),
	}).answer
	a.Replayed, a.Recorded = true, true
	a.LastTook(r.Record.StartedAt, r.Record.FinishedAt)
	return a
}

// redeclared is why nobody knows of a call whose tool was declared anew since.
const redeclared = "it was tried when its tool could be repeated, and must not be repeated now"

// unrecorded says why a call that may have run has no recorded result. One that has attempts had a result, and lost
// it when it was sent again after its tool was declared anew.
func unrecorded(record dedupe.Record) string {
	if record.Attempts > 0 {
		return redeclared
	}
	return "the sidecar that ran this call stopped before it recorded a result"
}

// unlessJournaled marks a replay of what waits in the journal: its duplicates at
// other sidecars do not get it yet.
func (r recorded) unlessJournaled(a *answer) *answer {
	if r.Journaled {
		a.Recorded = false
	}
	return a
}

// sayWhatIsBlocked warns of what the recorded words recommend, where a breaker blocks it
// at this moment. The words stay as they are.
func (r recorded) sayWhatIsBlocked(a *answer) *answer {
	recommended := a.Alternatives
	if a.Again != nil {
		recommended = a.Again.GetRecovery().GetAllowedAlternatives()
	}
	if blocked := explain.NotNow(r.snapshot, recommended); blocked != "" {
		a.Notices = append(a.Notices, blocked)
	}
	return a
}

// known answers a call from its record.
func (r recorded) known() *answer {
	if r.Record.State != dedupe.Closed && !r.isOf() {
		r.Verdict = dedupe.Mismatch
		return r.answer()
	}
	switch r.Record.State {
	case dedupe.Done, dedupe.Closed:
		r.Verdict = dedupe.Replay
	case dedupe.Unknown:
		r.Verdict = dedupe.OutcomeUnknown
	case dedupe.Claimed:
		r.Verdict = dedupe.InFlight
	case dedupe.Held:
		r.Verdict = dedupe.AwaitsApproval
	case dedupe.Absent, dedupe.NotRun: // of which the refusal stands
	}
	return r.answer()
}

// unlessRepeatable answers a call with a refusal for good, unless it is of what may
// have run, and may not be started anew under another id. Once it is refused nobody
// repeats it, so it may have happened, for whoever would.
func (r recorded) unlessRepeatable(refused *answer) *answer {
	declared := r.effect()
	switch fate := r.Record.Fate(declared); {
	case fate != dedupe.MayHaveRun && fate != dedupe.Repeatable,
		r.Record.Effect.Harmless() && declared.Harmless(),
		refused.Code().Class() == tool.Transient,
		!r.isOf():
		return refused
	}
	return r.result().Refused(r.subject().Unrepeatable(refused.Error.Constraint), 0)
}

// isOf reports that a record is of this call. Its arguments may have been taken
// otherwise when it was made, by the schema of then: see schema.SameCall.
func (r recorded) isOf() bool {
	if r.Record.Tool != r.Tool {
		return false
	}
	args, violation := schema.ParseArgs(r.Tool, r.Arguments)
	if violation != nil {
		return false
	}
	if r.now.Args == nil && r.route.Schema != nil {
		// Whose call it is does not depend on who still waits for the answer.
		_, _ = new(arguments).read(context.Background(), r.resolved, nil) // which does not end
	}
	return !r.now.Refers && r.now.Args != nil && isPrintOf(r.Record, r.now.Args) || schema.SameCall(r.Tool, args, r.Record.Fingerprint)
}

// isPrintOf reports that the fingerprint of a record is that of its tool with args.
func isPrintOf(record dedupe.Record, args map[string]any) bool {
	canonical, err := schema.Canonical(args)
	return err == nil && schema.Fingerprint(record.Tool, canonical) == record.Fingerprint
}

// lostAttempts tells of a call whose attempts may have had its effect, and have no
// answer. It is recorded: sent again under its id it is repeated safely, or, where its
// tool must not be repeated any more, answered from its record.
func (r recorded) lostAttempts(fate dedupe.Fate) *answer {
	a := r.result().Refused(r.subject().Lost(fate == dedupe.Repeatable), 0)
	a.Recorded = true
	return a
}

// sayWhenToAsk tells the program of a call that is unknown from when on sending
// it again settles it. The recorded words stay as they are.
func (r recorded) sayWhenToAsk(a *answer, tooEarly time.Duration) *answer {
	if tooEarly > 0 && a.Code() != "" {
		a.RetryAfter = tooEarly
		a.Notices = append(a.Notices, fmt.Sprintf(
			"%s does not show the call yet. Sent again with the same id after %s, it is run if it is not there then.",
			r.route.Verification.Tool, tool.RoundTime(tooEarly)))
	}
	return a
}
