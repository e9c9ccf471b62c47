package call

import (
	"context"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Pending tells what became of a call whose result its program may have lost, and what
// the model is to be told of it. It runs nothing and waits for nothing. age is how long
// ago the model made the call, by the store's clock: where records of that time are
// forgotten, that there is none says nothing. The result is not made to fit into a
// response. The error is a Fault, or that of ctx.
func (e Records) Pending(ctx context.Context, req Request, age time.Duration) (sidecallv1.Pending, *sidecallv1.ExecuteToolResponse, error) {
	lease := e.Catalog.Lease()
	defer lease.Release()
	c := newCall(lease.Snapshot, req)
	defer c.leave()
	known, err := e.Dedupe.Known(ctx, dedupe.Note{Key: c.Key})
	switch {
	case dedupe.IsCorrupt(err):
		return sidecallv1.Pending_PENDING_UNKNOWN, rendered(c.result().Refused(c.spokenOf(tool.NonIdempotent).subject().Corrupt(), 0)), nil
	case err != nil:
		return 0, nil, notLookedUp(ctx, err)
	}
	state, a := e.pending(recordedAs(c, known), age)
	return state, rendered(a), nil
}

func (e Records) pending(r recorded, age time.Duration) (sidecallv1.Pending, *answer) {
	record := r.Record
	switch fate := record.Fate(r.effect()); fate {
	case dedupe.Ran:
		if a := r.known(); r.isOf() {
			return sidecallv1.Pending_PENDING_DONE, a
		}
	case dedupe.Running:
		return sidecallv1.Pending_PENDING_IN_PROGRESS, r.known()
	case dedupe.Repeatable, dedupe.MayHaveRun:
		if record.State.Refused() {
			return sidecallv1.Pending_PENDING_UNKNOWN, r.lostAttempts(fate)
		}
	case dedupe.Answered: // another call with the same ids, which has an answer
	case dedupe.NeverRan:
		if record.State == dedupe.Held {
			return sidecallv1.Pending_PENDING_NOT_RUN, r.known()
		}
		return e.notRunYet(r, age)
	}
	return sidecallv1.Pending_PENDING_UNKNOWN, r.known()
}

// notRunYet tells of a call that has not run, if that is what having no record means.
func (e Records) notRunYet(c recorded, age time.Duration) (sidecallv1.Pending, *answer) {
	switch {
	case e.Dedupe.AtWork(c.Key): // it is about to be claimed
		return sidecallv1.Pending_PENDING_IN_PROGRESS, c.result().Refused(explain.InProgress(c.Key.ID), explain.WhenInProgress)
	case c.Custom != "":
		return sidecallv1.Pending_PENDING_UNKNOWN, c.result().Refused(c.subject().Custom(c.Custom), 0)
	case c.Record.State == dedupe.Absent && e.Dedupe.MayBeForgotten(age):
		forgotten := dedupe.MayHaveRun
		if c.effect().Repeatable() {
			forgotten = dedupe.Repeatable
		}
		a := c.result().Refused(c.subject().Forgotten(forgotten == dedupe.Repeatable), 0)
		a.Recorded = forgotten == dedupe.Repeatable // so that it is sent again
		return sidecallv1.Pending_PENDING_UNKNOWN, a
	}
	return sidecallv1.Pending_PENDING_NOT_RUN, c.result().Refused(explain.NeverRun(c.route.Tool.Name), 0)
}
