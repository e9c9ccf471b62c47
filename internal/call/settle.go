package call

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/rules"
)

// SettleTimeout bounds the settlement, which outlives the caller's deadline and
// cancellation: the effect has happened, so its record must be written. With a
// journal (see dedupe.Claim.Settle) the store has 2 s of it, and 250 ms while
// it is known to be down: the result is safe then, and the caller waits.
const SettleTimeout = 5 * time.Second

// settle writes what became of the call under its claim: the one store round
// trip after the effect. The record holds the response as it is returned, so
// that a replay equals the original.
func (e *Executor) settle(ctx context.Context, c *admitted, end ending) *response {
	if c.claim == nil {
		return e.respond(c.call, end.answer)
	}
	end.answer.Recorded, end.answer.Approval = true, c.approval
	if end.state == dedupe.Unknown || end.state == dedupe.Held {
		left := c.claim.Record()
		left.State, left.Approval = end.state, nil
		c.log.open = &left
	}
	c.rules.end(end.answer, end.state, e.Recorder.Panicked)
	var leaves rules.Leaves
	res, shaped := c.render(end.answer)
	c.rules.leave(end.answer, res, &leaves)
	settlement := dedupe.Settlement{
		State: end.state, Attempts: c.tried.sent, Frees: end.frees(c), Tokens: leaves.Tokens, Appends: leaves.Appends,
	}
	if c.tried.upstreamID != "" || c.route.Compensation != nil {
		settlement.Details = c.sealed(c.details())
	}
	if end.state == dedupe.Held {
		settlement.HoldFor = c.route.Tool.Policy.ApprovalTTL
	}
	c.put(&settlement, res, shaped)
	ctx = context.WithoutCancel(ctx)
	verdict, err := c.claim.Settle(ctx, settlement)
	if errors.Is(err, dedupe.ErrUnkept) {
		end.answer.Show.Keep = false
		left := res.GetBudget()
		res, shaped = c.render(end.answer)
		res.Budget = left
		c.put(&settlement, res, shaped)
		verdict, err = c.claim.Settle(ctx, settlement)
	}
	c.rules.remember(err == nil && verdict == dedupe.Settled)
	failpoint.Hit(failpoint.ResultUnsent)
	if err != nil || verdict != dedupe.Settled || settlement.Result == nil {
		res.Recorded = false
		if err != nil {
			c.log.cause = err
		}
	}
	if made := end.answer.Resolution; made != nil && (err != nil || verdict != dedupe.Superseded) {
		e.Settlements().tellResolved(ctx, c.Key, c.route.Tool.Name, c.claim.Record().Epoch, made, err)
	}
	return res
}

// render makes the response of a call, and what is to be kept of its reply.
func (c *call) render(a *answer) (*response, *output.Shaped) {
	res, shaped := a.Render()
	if c.now.Sent > 0 {
		res.Traceparent = c.log.trace.Traceparent()
	}
	return res, shaped
}

// put gives a settlement what it records of a response: nothing where that cannot be done,
// which is unreachable while every string in a response is valid UTF-8. The record still has
// to end.
func (c *call) put(s *dedupe.Settlement, res *response, shaped *output.Shaped) {
	encoded, err := proto.Marshal(res)
	if err != nil {
		c.log.cause = err
	}
	s.Result, s.Output = encoded, nil
	if shaped != nil {
		s.Output = &dedupe.Output{
			Ref: shaped.Ref, Data: shaped.Kept, Complete: shaped.KeptComplete, TTL: c.snapshot.Limits.OutputTTL,
		}
	}
}

// rendered is the response of an answer that keeps nothing.
func rendered(a *answer) *response {
	res, _ := a.Render()
	return res
}
