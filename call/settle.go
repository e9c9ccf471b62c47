package call

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/failpoint"
)

// settleTimeout bounds the settlement, which outlives the caller's deadline and
// cancellation: the effect has happened, so its record must be written. With a
// journal (see dedupe.Claim.Settle) the store has 2 s of it, and 250 ms while
// it is known to be down: the result is safe then, and the caller waits.
const settleTimeout = 5 * time.Second

// encode makes the record of a response. It is nil where that cannot be done, which is
// unreachable while every string in a response is valid UTF-8: the record still has to end.
func (c *call) encode(res *response) []byte {
	encoded, err := proto.Marshal(res)
	if err != nil {
		c.cause = err
		return nil
	}
	return encoded
}

// settle writes what became of the call under its claim: the one store round
// trip after the effect. The record holds the response as it is returned, so
// that a replay equals the original.
func (e *Executor) settle(ctx context.Context, c *call, end ending) *response {
	e.stain(c, &end)
	if c.tried.sent > 0 {
		end.response.Traceparent = c.trace.Traceparent()
	}
	if c.claim == nil {
		e.advise(c, end.response)
		return end.response
	}
	tokens := c.spend(&end)
	e.advise(c, end.response)
	end.response.Recorded, end.response.Budget = true, c.purse.left()
	encoded := c.encode(end.response)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	settlement := dedupe.Settlement{
		State:    end.state,
		Attempts: c.tried.sent,
		Result:   encoded,
		Output:   end.output,
		Tokens:   tokens,
		Appends:  c.book.appends,
		Frees:    c.frees(&end),
	}
	verdict, err := c.claim.Settle(ctx, settlement)
	if errors.Is(err, dedupe.ErrUnkept) {
		end.unkept()
		encoded = c.encode(end.response)
		settlement.Result, settlement.Output = encoded, nil
		verdict, err = c.claim.Settle(ctx, settlement)
	}
	e.stained(c, verdict, err)
	failpoint.Hit(failpoint.ResultUnsent)
	if err != nil || verdict != dedupe.Settled || encoded == nil {
		end.response.Recorded = false
		if err != nil {
			c.cause = err
		}
	}
	if made := end.response.GetResolution(); made != nil && (err != nil || verdict != dedupe.Superseded) {
		e.tellResolved(ctx, c.Key, c.route.Tool.Name, c.claim.Epoch(), made, err)
	}
	return end.response
}
