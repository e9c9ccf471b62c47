package call

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/baggage"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
)

var errAttemptLimit = errors.New("the timeout of the attempt has passed")

// runner makes the attempts of a call: it knows what to ask of whom.
type runner struct {
	route *catalog.Route
	trace *telemetry.Call
	// pass hears how long an attempt took.
	pass       limit.Pass
	invocation backend.Invocation
	// caller ends when the caller is to be answered; nil when it waits for as long
	// as an attempt takes.
	caller context.Context //nolint:containedctx // an attempt has another one
}

// newRunner returns what calls a tool for a call with a key.
func newRunner(route *catalog.Route, key tool.CallID, args map[string]any, canonical []byte, maxBytes int64) runner {
	return runner{route: route, invocation: backend.Invocation{
		CallID: key, Tool: route.Tool.Name, Target: route.Target, Declaration: route.Declaration,
		Args: canonical, Parsed: args,
		IdempotencyKey: idempotencyKey(key), Effect: route.Tool.Effect,
		RejectsBeforeWork: route.Tool.Policy.RejectsBeforeWork, FailsCleanly: route.Tool.Policy.FailsCleanly,
		MaxBytes: maxBytes, MaxChars: route.Tool.Policy.MaxOutputChars,
	}}
}

// attempt makes attempt n behind the guards: is the claim still held, does the
// breaker allow it, does the rate limit. What they refuse has not been sent and
// says nothing about the backend. Whether the claim is held the backend asks
// again, right before the first byte leaves; here it saves the way to there.
func (r *runner) attempt(ctx context.Context, n int) (made attempt) {
	if withheld := r.invocation.Withheld(); withheld != nil {
		return notSent(r.withheld(*withheld))
	}
	gates, refused := r.passBreakers()
	if refused != nil {
		return notSent(*refused)
	}
	// A panic must not leave the breakers waiting for this attempt.
	verdict := verdict{tool: breaker.Failure}
	defer func() { gates.tell(verdict) }()
	// After the breakers: what they refuse must not use the rate up.
	if wait, ok := r.route.Rate.Take(); !ok {
		verdict = nothing
		return notSent(tool.Failure{Code: tool.CodeRateLimited, RetryAfter: wait, ErrorType: "own_rate_limit",
			Constraint: fmt.Sprintf("the rate limit set for the backend %s is used up", r.route.Tool.Backend)})
	}

	call := ctx
	ctx, progress, cancel := r.bounded(r.entrusted(ctx))
	defer cancel()
	ctx, end := r.trace.StartAttempt(ctx, r.route.Tool.Backend, n)
	ended := &tool.Failure{Code: tool.CodeInternal, Evidence: tool.Ambiguous, ErrorType: "panic"} // until it is known
	defer func() { end(ended) }()
	in := r.invocation
	in.Attempt, in.Progress = n, progress
	in.Right = connected{in.Right, gates}
	heard := r.hearing()
	reply, failure, stack := r.invoke(ctx, in)
	heard.stop()
	if backend.WasWithheld(failure) {
		ended, verdict = failure, nothing
		return notSent(r.withheld(*failure))
	}
	reading := r.route.Program.Interpret(reply, failure, in.Parsed)
	failpoint.Hit(failpoint.ReplyInterpreted)
	ended = reading.Failure
	verdict = verdictOf(reading.Failure, failure, in.Effect)
	switch {
	case verdict.tool == breaker.Success:
		heard.answered()
	case verdict.fails() && errors.Is(ctx.Err(), context.DeadlineExceeded):
		if crowded := heard.late(); crowded || cutShort(call) {
			verdict = nothing
		}
	}
	return attempt{sent: true, reading: reading, mapped: reading.Failure != failure, stack: stack, upstreamID: upstreamID(reply.Header)}
}

// entrusted is the context of an attempt as its backend gets it: the baggage of the caller,
// which may tell of users and tenants, is for tools that are trusted.
func (r *runner) entrusted(ctx context.Context) context.Context {
	if r.route.Tool.Policy.Untrusted && baggage.FromContext(ctx).Len() > 0 {
		return baggage.ContextWithoutBaggage(ctx)
	}
	return ctx
}

// notSent is an attempt that a guard did not let through.
func notSent(failure tool.Failure) (a attempt) {
	failure.Evidence = tool.NotExecuted
	a.reading.Failure = &failure
	return a
}

// withheld is why an attempt was not sent, where it is not the claim that was lost.
func (r *runner) withheld(failure tool.Failure) tool.Failure {
	if why := r.route.Withdrawal.Why(); why != "" {
		return tool.Failure{
			Code: tool.CodePermissionDenied, ErrorType: "pinned", CallerFault: true,
			Constraint: why, Hint: explain.AskAboutPin(r.route.Tool.Name),
		}
	}
	return failure
}

// bounded bounds one attempt. progress is what the backend tells of its signs of
// life; nil when it has none to tell.
func (r *runner) bounded(ctx context.Context) (_ context.Context, progress func(backend.Sign), cancel func()) {
	timeout := r.route.Tool.Policy.AttemptTimeout
	if !r.route.Heartbeat {
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, errAttemptLimit)
		return ctx, nil, cancel
	}
	alive := withHeartbeat(ctx, timeout)
	caller := r.invocation.Caller
	return alive, func(sign backend.Sign) {
		alive.beat()
		if caller != nil {
			caller.Progressed(sign)
		}
	}, alive.stop
}

// invoke calls the backend. A panic of a backend is a failure of which nothing
// is known, not the end of the call.
func (r *runner) invoke(ctx context.Context, in backend.Invocation) (reply tool.Reply, failure *tool.Failure, stack string) {
	defer func() {
		if p := recover(); p != nil {
			reply, stack = tool.Reply{}, string(debug.Stack())
			failure = &tool.Failure{
				Code: tool.CodeInternal, Evidence: tool.Ambiguous, ErrorType: "panic",
				Err: fmt.Errorf("panic in backend %s: %v", r.route.Tool.Backend, p),
			}
		}
	}()
	reply, failure = r.route.Backend.Invoke(ctx, in)
	return reply, failure, ""
}

// hearing is what the tool's room hears of an attempt, once: that it was answered, or
// that it came late for its caller or for itself, whichever was first.
type hearing struct {
	pass  limit.Pass
	began time.Time
	once  sync.Once
	// crowded: it came late among others that were answered. Then there is too much
	// load, which the room sees to; to cut the backend off would help nobody.
	crowded bool
	stop    func() bool
}

// hearing begins with the attempt. Of a backend that answers nobody the end would tell
// long after the callers have left, so that the room hears of those.
func (r *runner) hearing() *hearing {
	h := &hearing{pass: r.pass, began: time.Now(), stop: func() bool { return true }}
	if r.caller != nil {
		h.stop = context.AfterFunc(r.caller, func() {
			if errors.Is(r.caller.Err(), context.DeadlineExceeded) {
				h.late()
			}
		})
	}
	return h
}

func (h *hearing) answered() {
	h.once.Do(func() { h.pass.Answered(time.Since(h.began)) })
}

func (h *hearing) late() (crowded bool) {
	h.once.Do(func() { h.crowded = h.pass.Late(time.Since(h.began)) })
	return h.crowded
}
