package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/failpoint"
	"github.com/sidecall/sidecall/output"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/retry"
	"github.com/sidecall/sidecall/tool"
)

// settleTimeout bounds the settlement, which outlives the caller's deadline and
// cancellation: the effect has happened, so its record must be written. With a
// journal (see dedupe.Claim.Settle) the store has 2 s of it, and 250 ms while
// it is known to be down: the result is safe then, and the caller waits.
const settleTimeout = 5 * time.Second

// settle writes what became of the call under its claim: the one store round
// trip after the effect. The record holds the response as it is returned, so
// that a replay equals the original.
func (e *Executor) settle(ctx context.Context, c *call, end ending) *sidecallv1.ExecuteToolResponse {
	if c.claim == nil {
		return end.response
	}
	end.response.Recorded = true
	encoded, err := proto.Marshal(end.response)
	if err != nil {
		// Unreachable while every string in a response is valid UTF-8; then the
		// record still has to end.
		c.cause = err
		encoded = nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	verdict, err := c.claim.Settle(ctx, dedupe.Settlement{
		State:    end.state,
		Attempts: c.sent,
		Result:   encoded,
		Output:   end.output,
	})
	failpoint.Hit(failpoint.ResultUnsent)
	if err != nil || verdict != dedupe.Settled || encoded == nil {
		end.response.Recorded = false
		if err != nil {
			c.cause = err
		}
	}
	if made := end.response.GetResolution(); made != nil && (err != nil || verdict != dedupe.Superseded) {
		e.resolved(ctx, c, made, c.claim.Epoch(), err)
	}
	return end.response
}

// notRecorded marks a replay of what waits in the journal: its duplicates at
// other sidecars do not get it yet.
func notRecorded(res *response, admission dedupe.Admission) *response {
	if admission.Journaled {
		res.Recorded = false
	}
	return res
}

// succeed shapes the reply of a call that worked.
func (e *Executor) succeed(c *call) ending {
	reading := &c.reading
	policy := &c.route.Tool.Policy
	shaped := output.Shape(output.Input{
		Reply:     reading.Reply,
		ToolName:  c.route.Tool.Name,
		Limit:     c.outputLimit(),
		Strategy:  policy.OutputStrategy,
		Untrusted: policy.Untrusted,
		// Without a claim there is no settlement that could carry the output.
		Keep: c.claim != nil, KeepLimit: e.Options.KeepOutputBytes,
	})
	res := c.respond(reading, &shaped)
	end := ending{response: res, state: dedupe.Done}
	if shaped.Ref != "" {
		end.output = &dedupe.Output{
			Ref: shaped.Ref, Data: shaped.Kept, Complete: shaped.KeptComplete, TTL: e.Options.OutputTTL,
		}
	}
	return end
}

// afterFailure turns the last failure of the attempts into the error for the
// model and the state of the record.
func (c *call) afterFailure(failure *tool.Failure, report retry.Report) ending {
	switch {
	case failure.Evidence == tool.Definite:
		return ending{response: c.failed(explainFailure(c, failure, report), *failure), state: dedupe.Done}
	case failure.Evidence == tool.Ambiguous && !c.effect().Repeatable():
		return c.unknown(failure)
	}
	if report.After > 0 {
		failure.RetryAfter = report.After
	}
	res := c.failed(explainFailure(c, failure, report), *failure)
	res.Recovery.RetriesExhausted = c.sent > 0 && mayRepeat(failure, c.effect())
	return ending{response: res, state: dedupe.NotRun}
}

// notRun ends a call of which provably nothing was sent.
func (c *call) notRun(explained tool.Error, failure tool.Failure) ending {
	return ending{response: c.failed(explained, failure), state: dedupe.NotRun}
}

// unknown ends a call that may or may not have had its effect.
func (c *call) unknown(failure *tool.Failure) ending {
	res := c.failed(explainUnknown(c, failure), tool.Failure{Code: tool.CodeOutcomeUnknown})
	if verify := c.route.Tool.Policy.VerifyWith; verify != "" {
		res.Recovery.AllowedAlternatives = []string{verify}
	}
	return ending{response: res, state: dedupe.Unknown}
}

// afterPanic ends a call that a bug in the pipeline interrupted.
func (c *call) afterPanic() ending {
	switch {
	case c.sent == 0:
		return c.notRun(explainBug(c), tool.Failure{Code: tool.CodeInternal})
	case c.effect().Repeatable():
		return ending{response: c.failed(explainBug(c), tool.Failure{Code: tool.CodeInternal}), state: dedupe.NotRun}
	default:
		return c.unknown(&tool.Failure{Code: tool.CodeInternal, Evidence: tool.Ambiguous})
	}
}
