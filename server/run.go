package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/failpoint"
	"github.com/sidecall/sidecall/retry"
	"github.com/sidecall/sidecall/tool"
)

// run takes an admitted call to its end at the backend: guards, attempts,
// interpretation, shaping. It does not touch the record.
func (e *Executor) run(ctx context.Context, c *call) ending {
	if !c.places.complete(e.Slots, c.route) {
		return c.notRun(explainNoRoom(c, dedupe.NotRun), tool.Failure{
			Code: tool.CodeOverloaded, Evidence: tool.NotExecuted, RetryAfter: overloadRetryAfter,
		})
	}
	defer c.places.leaveTarget()

	key := c.idempotencyKey()
	policy := retry.Policy(c.route.Tool.Policy.Retry)
	report := retry.Do(ctx, policy, c.route.Retries, func(ctx context.Context, n int) retry.Verdict {
		return e.attempt(ctx, c, n, key)
	})
	if report.Attempts == 0 {
		return c.notRun(explainNotStarted(ctx, c))
	}
	if failure := c.reading.Failure; failure != nil {
		return c.afterFailure(failure, report)
	}
	return e.succeed(c)
}

// attempt makes one attempt, classifies what came of it and says whether there
// may be another.
func (e *Executor) attempt(ctx context.Context, c *call, n int, key string) retry.Verdict {
	sent, earlier := c.sent, c.reading.Failure
	failure := e.guardedInvoke(ctx, c, n, key)
	if failure == nil {
		return retry.Verdict{}
	}
	if sent > 0 && sent == c.sent {
		c.keep(earlier, failure.RetryAfter)
	}
	if c.keyInUse(failure) {
		failure = c.stillRunning(failure)
	}
	return retry.Verdict{Again: mayRepeat(failure, c.effect()), After: failure.RetryAfter}
}

// keep lets a call that a guard kept from being sent again end as its last
// attempt did: the guard's own code would say that nothing was sent. Of the
// guard remains how long to wait.
func (c *call) keep(earlier *tool.Failure, retryAfter time.Duration) {
	kept := *earlier
	kept.RetryAfter = max(kept.RetryAfter, retryAfter)
	c.reading.Failure = &kept
}

// keyInUse reports what may be the answer of an upstream that still works on an
// earlier attempt with the same key: a 409 of which the tool's rules say nothing.
// It is not how the call ended.
func (c *call) keyInUse(failure *tool.Failure) bool {
	return failure.Status == http.StatusConflict && failure.Evidence == tool.Definite && !c.mapped &&
		c.effect() == tool.Keyed && c.earlierMayHaveRun()
}

func (c *call) stillRunning(conflict *tool.Failure) *tool.Failure {
	c.reading.Failure = &tool.Failure{
		Code: tool.CodeTimeout, Evidence: tool.Ambiguous, ErrorType: conflict.ErrorType, Err: conflict.Err,
		Constraint: "the upstream says that this attempt is in conflict, and an earlier one with the same key may still be under way",
		Message:    conflict.Message, RetryAfter: conflict.RetryAfter,
	}
	return c.reading.Failure
}

// mayRepeat is the rule that keeps a call from happening twice: what provably
// did not run may be sent again; what may have run, only when repeating it is
// harmless; what ran to an answer, never. An open breaker is terminal: waiting
// here would only hold the caller.
func mayRepeat(failure *tool.Failure, effect tool.Effect) bool {
	if failure.Code.Class() != tool.Transient {
		return false
	}
	switch failure.Code {
	case tool.CodeCircuitOpen, tool.CodeCancelled, tool.CodeStoreUnavailable:
		return false
	default:
	}
	return failure.Evidence == tool.NotExecuted ||
		failure.Evidence == tool.Ambiguous && effect.Repeatable()
}

// guardedInvoke makes one attempt behind the rate limit and the breaker. What
// they refuse has not been sent and says nothing about the backend.
func (e *Executor) guardedInvoke(ctx context.Context, c *call, n int, key string) *tool.Failure {
	c.reading.Failure = nil
	if c.claim != nil && !c.claim.Held() {
		return c.refuseAttempt(tool.Failure{Code: tool.CodeStoreUnavailable, ErrorType: "lease_lost",
			Constraint: "the claim on this call ran out before it was sent"})
	}
	done, err := c.route.Breaker.Allow()
	if err != nil {
		failure := tool.Failure{Code: tool.CodeCircuitOpen, ErrorType: "circuit_open", Err: err}
		if open, ok := errors.AsType[*breaker.OpenError](err); ok {
			failure.RetryAfter = open.RetryAfter
		}
		return c.refuseAttempt(failure)
	}
	// A panic must not leave the breaker waiting for this attempt.
	verdict := breaker.Failure
	defer func() { done(verdict) }()
	// After the breaker: what it refuses must not use the rate up.
	if wait, ok := c.route.Rate.Take(); !ok {
		verdict = breaker.Ignored
		return c.refuseAttempt(tool.Failure{Code: tool.CodeRateLimited, RetryAfter: wait, ErrorType: "own_rate_limit",
			Constraint: fmt.Sprintf("the rate limit set for the backend %s is used up", c.route.Tool.Backend)})
	}

	ctx, progress, cancel := c.attemptContext(ctx)
	defer cancel()
	if c.route.Tool.Backend == BuiltIn {
		ctx = context.WithValue(ctx, callerKey{}, caller{tenant: c.tenant, limit: c.outputLimit()})
	}
	ctx, end := c.record.StartAttempt(ctx, c.route.Tool.Backend, n)
	ended := &tool.Failure{Code: tool.CodeInternal, Evidence: tool.Ambiguous, ErrorType: "panic"} // until it is known
	defer func() { end(ended) }()
	c.sent++
	in := e.invocation(c, n, key)
	in.Progress = progress
	began := time.Now()
	reply, failure := c.invoke(ctx, in)
	took := time.Since(began)
	c.reading = c.route.Program.Interpret(reply, failure, c.args)
	c.mapped = c.reading.Failure != failure
	c.ambiguous = c.ambiguous || c.reading.Failure != nil && c.reading.Failure.Evidence == tool.Ambiguous
	failpoint.Hit(failpoint.ReplyInterpreted)
	ended = c.reading.Failure
	verdict = verdictOf(c.reading.Failure, failure)
	if c.crowdedOut(ctx, verdict, took) {
		verdict = breaker.Ignored
	}
	if c.reading.Failure != nil {
		c.cause = c.reading.Failure.Err
	}
	return c.reading.Failure
}

// crowdedOut tells the tool's room how long an attempt took. It reports whether
// the attempt came late among others that were answered: then there is too much
// load, which the room sees to. To cut the backend off would help nobody.
func (c *call) crowdedOut(ctx context.Context, verdict breaker.Outcome, took time.Duration) bool {
	switch {
	case verdict == breaker.Success:
		c.places.room.Answered(took)
	case verdict == breaker.Failure && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return c.places.room.Late(took)
	}
	return false
}

// attemptContext bounds one attempt. progress is what the backend tells of its
// signs of life; nil when it has none to tell.
func (c *call) attemptContext(ctx context.Context) (_ context.Context, progress func(string), cancel func()) {
	timeout := c.route.Tool.Policy.AttemptTimeout
	if !c.route.Heartbeat {
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, errAttemptLimit)
		return ctx, nil, cancel
	}
	alive := withHeartbeat(ctx, timeout)
	return alive, func(string) { alive.beat() }, alive.stop
}

// refuseAttempt records an attempt that a guard did not let through.
func (c *call) refuseAttempt(failure tool.Failure) *tool.Failure {
	failure.Evidence = tool.NotExecuted
	c.reading.Failure = &failure
	return &failure
}

// invoke calls the backend. A panic of a backend is a failure of which nothing
// is known, not the end of the call.
func (c *call) invoke(ctx context.Context, in backend.Invocation) (reply backend.Reply, failure *tool.Failure) {
	defer func() {
		if p := recover(); p != nil {
			c.stack = string(debug.Stack())
			reply = backend.Reply{}
			failure = &tool.Failure{
				Code: tool.CodeInternal, Evidence: tool.Ambiguous, ErrorType: "panic",
				Err: fmt.Errorf("panic in backend %s: %v", c.route.Tool.Backend, p),
			}
		}
	}()
	return c.route.Backend.Invoke(ctx, in)
}

func (e *Executor) invocation(c *call, n int, key string) backend.Invocation {
	return backend.Invocation{
		Tool:              c.route.Tool.Name,
		Target:            c.route.Target,
		Args:              c.canonical,
		Parsed:            c.args,
		IdempotencyKey:    key,
		Attempt:           n,
		Effect:            c.effect(),
		RejectsBeforeWork: c.route.Tool.Policy.RejectsBeforeWork,
		MaxBytes:          e.Options.KeepOutputBytes,
	}
}

// verdictOf says what an attempt tells the breaker about the backend. read is the
// failure after the tool's own mapping, raw the one before it: a status that
// the operator mapped to a business answer says that the backend is well.
func verdictOf(read, raw *tool.Failure) breaker.Outcome {
	switch {
	case read == nil:
		return breaker.Success
	case read.Code == tool.CodeCancelled || raw != nil && raw.Code == tool.CodeCancelled,
		read.Evidence == tool.NotExecuted && read.Code.Class() != tool.Transient:
		return breaker.Ignored
	case read.CallerFault || read.Evidence == tool.Definite && read.Code.Class() != tool.Transient:
		// The backend answered: it is alive, whatever the answer.
		return breaker.Success
	default:
		return breaker.Failure
	}
}

// ending is how a call ended at the backend, before it is recorded.
type ending struct {
	response *response
	state    dedupe.State
	output   *dedupe.Output
}
