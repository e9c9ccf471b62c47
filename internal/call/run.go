package call

import (
	"cmp"
	"context"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/retry"
)

// run takes an admitted call to its end at the backend: attempts,
// interpretation, shaping. It does not touch the record. When ctx ends, nothing
// more is begun; what is under way ends with atWork.
func (e *Executor) run(ctx, atWork context.Context, c *admitted) ending {
	if !c.stay.seats.complete(e.Slots, c.route) {
		return c.notRun(c.subject().AtCapacity(c.stay.seats.full, dedupe.NotRun), &tool.Failure{RetryAfter: explain.WhenOverloaded})
	}
	defer c.stay.seats.leaveTarget()

	right := rightFor(ctx, c.claim, c.route.Withdrawal)
	runner := c.runner(right)
	if c.caller != nil {
		runner.caller = ctx
	}
	reopened := c.before > 0
	report := retry.Do(ctx, retry.Policy(c.route.Tool.Policy.Retry), c.route.Retries, func(_ context.Context, n int) retry.Verdict {
		c.begin()
		c.stay.load.Empty() // of the attempt before
		if c.tried.ambiguous {
			runner.invocation.Right = repeatable{right, c.route, e.Catalog}
		}
		failure := c.tried.add(runner.attempt(atWork, n), c.effect(), reopened)
		c.update()
		if failure == nil {
			return retry.Verdict{}
		}
		return retry.Verdict{Again: mayRepeat(failure, c.effect()), After: failure.RetryAfter}
	})
	if report.Attempts == 0 || c.tried.sent == 0 && ctx.Err() != nil {
		return c.notRun(c.notStarted(ctx), &tool.Failure{})
	}
	c.log.cause, c.log.stack = cmp.Or(c.tried.cause, c.log.cause), c.tried.stack
	if failure := c.tried.reading.Failure; failure != nil {
		mayRepeat := failure.Evidence == tool.Ambiguous && repeatable{right, c.route, e.Catalog}.still()
		return failing{c, failure, report, mayRepeat}.end()
	}
	return c.succeed()
}

// runner makes the attempts of a call, for who has the right to.
func (c *admitted) runner(right right) runner {
	r := newRunner(c.route, c.Key, c.values, c.canonical, c.snapshot.Limits.KeepOutputBytes)
	r.trace, r.pass = &c.log.trace, c.stay.seats.pass
	in := &r.invocation
	in.Client, in.Round, in.Caller = c.Client, c.Round, heard(c.Request.Caller, c.route.Secrets)
	in.Right, in.Memory, in.MaxChars = right, (*replyMemory)(&c.stay.load), c.outputLimit()
	return r
}

// replyWeight is how often a reply is in memory while it is worked on: while its
// buffer grows, as it came, as it is shown and kept.
const replyWeight = 3

// replyMemory is the memory that the replies of a call take.
type replyMemory limit.Load

// Take implements backend.Memory.
func (r *replyMemory) Take(n int64) bool { return (*limit.Load)(r).Take(n * replyWeight) }

// succeed tells the reply of a call that worked.
func (c *admitted) succeed() ending {
	reading, policy, limits := &c.tried.reading, &c.route.Tool.Policy, &c.snapshot.Limits
	reading.Reply.InputRequired = c.route.Secrets.Bytes(reading.Reply.InputRequired)
	a := &answer{For: c.result(), Success: result.Success{Reading: reading, Show: output.Input{
		Secrets:   secretsOf(c.route),
		Limit:     c.outputLimit(),
		Strategy:  policy.OutputStrategy,
		Untrusted: policy.Untrusted,
		// Without a claim there is no settlement that could carry the output.
		Keep: c.claim != nil, Conversation: c.Key.Conversation, KeepLimit: limits.KeepOutputBytes,
	}}}
	if reading.Outcome != interpret.OK || len(reading.Items) > 0 || reading.Unread {
		observed := explain.Observation{Of: c.subject(), Reading: reading}
		a.Items, a.Show.Remarks = itemsOf(observed), observed.Remarks()
	}
	return ending{answer: a, state: dedupe.Done}
}

func itemsOf(observed explain.Observation) result.Items {
	return result.ItemsOf(observed.Reading, observed.Of.Route.Secrets, observed.ItemErrors())
}

// secretsOf is what takes the secrets out of what a tool returned; nil when there
// are none.
func secretsOf(route *catalog.Route) output.Secrets {
	if route.Secrets == nil {
		return nil
	}
	return route.Secrets
}

// failing is a call whose last attempt has failed.
type failing struct {
	*admitted

	failure *tool.Failure
	report  retry.Report
	// repeatable says that the call may be made again if it may have run.
	repeatable bool
}

// end is the error for the model, and the state of the record. Of items none of which was
// done it tells too.
func (f failing) end() ending {
	own := *f.failure // who failed may fail others in the same words
	f.failure = &own
	own.AllowedAlternatives = noStronger(&f.of, own.AllowedAlternatives)
	end := f.explained()
	if reading := &f.tried.reading; len(reading.Items) > 0 {
		end.answer.Items = itemsOf(explain.Observation{Of: f.subject(), Reading: reading})
	}
	return end
}

func (f failing) explained() ending {
	failure := f.failure
	explained := f.subject().Failure(failure, f.report)
	failure.AllowedAlternatives = explain.Open(f.snapshot, failure.AllowedAlternatives)
	if explain.Ours(failure) {
		f.refs.hide(&explained, f.route)
	}
	switch {
	case failure.Evidence == tool.Definite:
		return ending{answer: f.result().Failed(explained, failure), state: dedupe.Done, harmless: f.provesNothingDone()}
	case failure.Evidence == tool.Ambiguous && !f.repeatable:
		return f.unknown(failure)
	}
	if f.report.After > 0 {
		failure.RetryAfter = f.report.After
	}
	end := f.notRun(explained, failure)
	end.harmless = failure.Evidence == tool.NotExecuted
	end.answer.Exhausted = f.tried.sent > 0 && mayRepeat(failure, f.effect())
	return end
}

// notRun ends a call that may be sent again under its id: provably nothing was
// sent, or its effect may repeat.
func (c *call) notRun(explained tool.Error, failure *tool.Failure) ending {
	return ending{answer: c.result().Failed(explained, failure), state: dedupe.NotRun}
}

// unknown ends a call that may or may not have had its effect.
func (c resolved) unknown(failure *tool.Failure) ending {
	a := c.result().Refused(c.subject().Unknown(failure), 0)
	a.Alternatives = c.verifiers()
	return ending{answer: a, state: dedupe.Unknown}
}

// verifiers are the tools that can tell whether the call has happened.
func (c resolved) verifiers() []string {
	if verify := c.route.Tool.Policy.VerifyWith; verify != "" {
		return explain.Open(c.snapshot, []string{verify})
	}
	return nil
}

// afterBug ends a call that a bug in the pipeline interrupted: as one that was not run, unless it may
// have been.
func (c resolved) afterBug(notRun ending) ending {
	if c.now.Sent > 0 && !c.effect().Repeatable() {
		return c.unknown(&tool.Failure{Code: tool.CodeInternal, Evidence: tool.Ambiguous})
	}
	return notRun
}

// repeatable is the right to send what may have had its effect already: while the
// tool is one that may be repeated. A discovered one may have been declared anew
// since, by a server that was started again; the stricter of both decides.
type repeatable struct {
	right

	route   *catalog.Route
	catalog Catalog
}

// Held implements backend.Right.
func (r repeatable) Held() bool { return r.still() && r.right() }

func (r repeatable) still() bool {
	if !r.route.Tool.Effect.Repeatable() {
		return false
	}
	now, ok := r.catalog.Snapshot().Lookup(r.route.Tool.Name)
	return !ok || now.Tool.Effect.Repeatable()
}
