package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// backSoon is what a call is told to wait whose tool nobody serves. Nobody knows
	// when a worker comes.
	backSoon = 5 * time.Second
	// freeSoon is what one is told that found every worker busy.
	freeSoon = time.Second
)

// away is a call of a tool that nobody serves. The backend knows it better than its
// breaker, which must not keep calls out when a worker is there again.
func away(name string) *tool.Failure {
	return &tool.Failure{
		Code: tool.CodeDependencyUnavailable, Evidence: tool.NotExecuted, ErrorType: "no_worker",
		Constraint: "no worker serves it now", RetryAfter: backSoon, KnownDown: true,
		Err: errors.New("no worker of the backend " + name + " serves the tool"),
	}
}

// notServed is a call that had no place when its context ended.
func notServed(ctx context.Context, unserved bool, name string) *tool.Failure {
	switch {
	case !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ended(ctx, tool.NotExecuted)
	case unserved:
		return away(name)
	}
	return &tool.Failure{
		Code: tool.CodeOverloaded, Evidence: tool.NotExecuted, ErrorType: "workers_busy",
		Constraint: "every worker that serves it was busy for as long as the call could wait",
		RetryAfter: freeSoon, KnownDown: true, Err: context.Cause(ctx),
	}
}

// tooLarge is a call that is not handed over: a worker that cannot read a message ends
// its stream, and with it all the calls that it has.
func tooLarge(most int64) *tool.Failure {
	return &tool.Failure{
		Code: tool.CodeInvalidArgs, Evidence: tool.NotExecuted, ErrorType: "arguments_too_large", CallerFault: true,
		Constraint: fmt.Sprintf("with these arguments the call is longer than the %d bytes that a worker is sent", most),
		Hint:       "Send shorter or fewer values.",
	}
}

// lost is a call whose worker was lost after it had been handed over.
func lost(why error) *tool.Failure {
	return &tool.Failure{
		Code: tool.CodeDependencyUnavailable, Evidence: tool.Ambiguous, ErrorType: "worker_lost",
		Constraint: "the worker was lost before it said what became of the call", Err: why,
	}
}

// ended is a call whose context ended.
func ended(ctx context.Context, evidence tool.Evidence) *tool.Failure {
	return backend.ContextEnded(ctx, evidence, "the worker did not answer in time")
}
