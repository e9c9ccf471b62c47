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
// the model is to be told of it. It runs nothing and waits for nothing. age is how long
// ago the model made the call, by the store's clock: where records of that time are
// forgotten, that there is none says nothing. The result is not made to fit into a
// response. The error is a Fault, or that of ctx.
func (e *Executor) Pending(ctx context.Context, req Request, age time.Duration) (sidecallv1.Pending, *sidecallv1.ExecuteToolResponse, error) {
	lease := e.Catalog.Lease()
	defer lease.Release()
	c := newCall(lease.Snapshot, req)
	defer c.leave()
	known, err := e.Dedupe.Known(ctx, dedupe.Note{Key: c.Key})
	switch {
	case dedupe.IsCorrupt(err):
		c.standIn(tool.NonIdempotent)
		return sidecallv1.Pending_PENDING_UNKNOWN, rendered(c.result().Refused(c.subject().Corrupt(), 0)), nil
	case err != nil:
		return 0, nil, notLookedUp(ctx, err)
	}
	state, a := e.pending(c, known, age)
	return state, rendered(a), nil
}

func (e *Executor) pending(c *call, known dedupe.Known, age time.Duration) (sidecallv1.Pending, *answer) {
	record := known.Record
	switch fate := record.Fate(c.declared(record)); fate {
	case dedupe.Ran:
		if a := c.known(known); c.isOf(record) {
			return sidecallv1.Pending_PENDING_DONE, a
		}
	case dedupe.Running:
		return sidecallv1.Pending_PENDING_IN_PROGRESS, c.known(known)
	case dedupe.Repeatable, dedupe.MayHaveRun:
		if record.State == dedupe.NotRun {
			return sidecallv1.Pending_PENDING_UNKNOWN, c.lostAttempts(record, fate)
		}
	case dedupe.Answered: // another call with the same ids, which has an answer
	case dedupe.NeverRan:
		return e.notRunYet(c, record, age)
	}
	return sidecallv1.Pending_PENDING_UNKNOWN, c.known(known)
}

// notRunYet tells of a call that has not run, if that is what having no record means.
func (e *Executor) notRunYet(c *call, record dedupe.Record, age time.Duration) (sidecallv1.Pending, *answer) {
	switch {
	case e.Dedupe.AtWork(c.Key): // it is about to be claimed
		return sidecallv1.Pending_PENDING_IN_PROGRESS, c.result().Refused(explain.InProgress(c.Key.ID), explain.WhenInProgress)
	case record.State == dedupe.Absent && e.Dedupe.MayBeForgotten(age):
		forgotten := dedupe.MayHaveRun
		if c.route != nil && c.effect().Repeatable() {
			forgotten = dedupe.Repeatable
		}
		c.standIn(tool.NonIdempotent)
		a := c.result().Refused(c.subject().Forgotten(forgotten == dedupe.Repeatable), 0)
		a.Recorded = forgotten == dedupe.Repeatable // so that it is sent again
		return sidecallv1.Pending_PENDING_UNKNOWN, a
	}
	c.standIn(tool.NonIdempotent)
	return sidecallv1.Pending_PENDING_NOT_RUN, c.result().Refused(c.subject().NeverRun(), 0)
}

// lostAttempts tells of a call whose attempts may have had its effect, and have no
// answer. It is recorded: sent again under its id it is repeated safely, or, where its
// tool must not be repeated any more, answered from its record.
func (c *call) lostAttempts(record dedupe.Record, fate dedupe.Fate) *answer {
	c.standIn(record.Effect)
	a := c.result().Refused(c.subject().Lost(fate == dedupe.Repeatable), 0)
	a.Recorded = true
	return a
}

// declared is the effect of the call's tool as it is now; of one that is gone, as it was.
func (c *call) declared(record dedupe.Record) tool.Effect {
	if c.route == nil {
		return record.Effect
	}
	return c.effect()
}
