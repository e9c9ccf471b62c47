package call

import (
	"context"
	"time"

	"github.com/sidecall/sidecall/call/explain"
	"github.com/sidecall/sidecall/dedupe"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/tool"
)

// Pending tells what became of a call whose result its program may have lost, and what
// the model is to be told of it. It runs nothing and waits for nothing. madeAt is when
// the model made the call: where records of that time are forgotten, that there is none
// says nothing. The result is not made to fit into a response. The error is a Fault, or
// that of ctx.
func (e *Executor) Pending(ctx context.Context, req Request, madeAt time.Time) (sidecallv1.Pending, *sidecallv1.ExecuteToolResponse, error) {
	lease := e.Catalog.Lease()
	defer lease.Release()
	c := newCall(lease.Snapshot, req)
	defer c.leave()
	known, err := e.Dedupe.Known(ctx, dedupe.Note{Key: c.Key})
	switch {
	case dedupe.IsCorrupt(err):
		c.standIn(tool.NonIdempotent)
		return sidecallv1.Pending_PENDING_UNKNOWN, c.result().Refused(c.subject().Corrupt(), 0), nil
	case err != nil:
		return 0, nil, notLookedUp(ctx, err)
	}
	state, res := e.pending(c, known, madeAt)
	return state, res, nil
}

func (e *Executor) pending(c *call, known dedupe.Known, madeAt time.Time) (sidecallv1.Pending, *response) {
	switch known.Record.State {
	case dedupe.Done:
		if res := c.known(known); c.isOf(known.Record) {
			return sidecallv1.Pending_PENDING_DONE, res
		}
	case dedupe.Claimed:
		return sidecallv1.Pending_PENDING_IN_PROGRESS, c.known(known)
	case dedupe.Unknown:
	case dedupe.Absent, dedupe.NotRun:
		return e.notRunYet(c, known.Record, madeAt)
	}
	return sidecallv1.Pending_PENDING_UNKNOWN, c.known(known)
}

// notRunYet tells of a call that has not run, if that is what having no record means.
func (e *Executor) notRunYet(c *call, record dedupe.Record, madeAt time.Time) (sidecallv1.Pending, *response) {
	if e.Dedupe.AtWork(c.Key) { // it is about to be claimed
		return sidecallv1.Pending_PENDING_IN_PROGRESS, c.result().Refused(explain.InProgress(c.Key.ID), explain.WhenInProgress)
	}
	if record.State == dedupe.NotRun && onlyRepeatable(record) {
		c.standIn(record.Effect)
		res := c.unknown(&tool.Failure{
			Code: tool.CodeOutcomeUnknown, Evidence: tool.Ambiguous,
			Constraint: "attempts at this call were lost, and the program that made it ended",
		}).response
		res.Recorded = true // so that who goes on sends it again under its id
		return sidecallv1.Pending_PENDING_UNKNOWN, res
	}
	if record.State == dedupe.Absent && e.Dedupe.MayBeForgotten(madeAt) && (c.route == nil || mustNotRepeat(c.effect())) {
		c.standIn(tool.NonIdempotent)
		return sidecallv1.Pending_PENDING_UNKNOWN, c.unknown(&tool.Failure{
			Code: tool.CodeOutcomeUnknown, Evidence: tool.Ambiguous,
			Constraint: "the model made this call so long ago that its record, if there was one, is forgotten",
		}).response
	}
	c.standIn(tool.NonIdempotent)
	return sidecallv1.Pending_PENDING_NOT_RUN, c.result().Refused(c.subject().NeverRun(), 0)
}
