package call

import (
	"context"
	"errors"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/tool"
)

// claim asks for the right to run the call: the one store round trip before the
// effect. Without an answer it may run, unless a rule says no to what was heard. A
// duplicate gets the first one's result, here or after waiting.
func (e *Executor) claim(ctx context.Context, made *admitted) (rules.Heard, *answer) {
	c := &made.checked
	ask := c.rules.ask(nil)
	req := dedupe.Request{
		Key:         c.Key,
		Tool:        c.route.Tool.Name,
		Effect:      c.effect(),
		Fingerprint: c.fingerprint,
		EffectKey:   c.effectKey,
		Draw:        ask.Draw,
		Logs:        ask.Logs,
		Hold:        c.hold(),
		HoldOnly:    c.HoldOnly,
		Details:     c.sealed(c.details()),
		Terms:       c.terms(),
	}
	for looked := c.HoldOnly; ; { // who only asks runs no verification either
		admission, claim, err := c.stay.ticket.Admit(ctx, req)
		if err == nil && admission.Verdict.Waits() && c.stay.seats.wait(e.Waiting) { // or the line is full
			admission, claim, err = c.stay.ticket.Wait(ctx)
		}
		if err != nil {
			return rules.Heard{}, e.withoutStore(ctx, c, err)
		}
		heard := rules.Heard{Tally: admission.Tally, Logs: admission.Logs, Approved: admission.Record.Approved()}
		if claim != nil {
			made.claim, made.before = claim, claim.Record().Epoch-1
			made.approval = approvalOf(admission.Record)
			made.update()
			c.rules.until = claim.Now().Add(c.route.Tool.Policy.ApprovalTTL)
			return heard, nil
		}
		if admission.Verdict == dedupe.MayRun {
			made.before, made.approval = admission.Record.Epoch, approvalOf(admission.Record)
			made.update()
			if req.Hold = c.heldAfter(heard); req.Hold != nil {
				continue
			}
			return heard, nil
		}
		r := recorded{c.resolved, admission}
		if r.asksAgain(&req) {
			continue
		}
		var tooEarly time.Duration
		if admission.Verdict == dedupe.OutcomeUnknown && !looked {
			looked = true
			var settled bool
			if settled, tooEarly = e.lookAgain(ctx, c.resolved, admission); settled {
				continue
			}
		}
		heard.Exceeded = admission.Ceiling
		if refused := c.rules.hear(nil, heard); refused != nil {
			return heard, refused
		}
		return heard, lookup{e, c.call, nil}.told(ctx, r, tooEarly)
	}
}

// asksAgain changes a request by what the record in its way says; false where nothing is to be asked again.
func (r recorded) asksAgain(req *dedupe.Request) bool {
	switch {
	case r.readOtherwise(req):
		req.Fingerprint = r.Record.Fingerprint
	case r.goesOn() && len(req.After) < dedupe.MaxAfter:
		req.After = append(req.After, r.Earlier)
	default:
		return false
	}
	return true
}

// readOtherwise reports that the record is of a call with the same arguments, as they were read
// by a schema that has been changed since.
func (r recorded) readOtherwise(req *dedupe.Request) bool {
	return r.Verdict == dedupe.Mismatch && req.Fingerprint != r.Record.Fingerprint && !decided(r.Record) && r.isOf()
}

// withoutStore decides a call that could not be admitted; nil lets it run. Nothing
// has been sent. Only a tool without any effect may go on unrecorded, and no sensitive
// one: nobody can tell what has entered its prompt. A call that has a record, in another
// layout, is not one without.
func (e *Executor) withoutStore(ctx context.Context, c *checked, err error) *answer {
	c.log.cause = err
	switch {
	case dedupe.IsCorrupt(err):
		return c.result().Refused(c.subject().Corrupt(), 0)
	case ctx.Err() != nil:
		return c.result().Refused(c.notStarted(ctx), 0)
	case c.effect() == tool.ReadOnly && !errors.Is(err, dedupe.ErrLayout) && !c.snapshot.Limits.RefuseUnrecorded &&
		c.rules.hear(nil, rules.Heard{Unknown: true}) == nil:
		return nil
	default:
		return c.result().Refused(c.subject().StoreDown(c.log.cause), explain.WhenStoreDown)
	}
}
