package call

import (
	"context"
	"errors"
	"fmt"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// verdict is what an attempt tells the breaker of its tool, and that of the connection
// to its backend.
type verdict struct{ tool, connection breaker.Outcome }

// nothing is the verdict of what says nothing about the backend.
var nothing verdict

func (v verdict) fails() bool { return v.tool == breaker.Failure || v.connection == breaker.Failure }

// verdictOf says what an attempt tells the breakers. read is the failure after the tool's
// own mapping, raw the one before it: a status that the operator mapped to a business
// answer says that the backend is well.
//
// What kept the request from being sent concerns the connection, and no tool. What came
// of one that was sent concerns its tool alone: that a payment fails is no evidence that
// orders cannot be looked up.
func verdictOf(read, raw *tool.Failure, effect tool.Effect) verdict {
	switch {
	case read == nil:
		return verdict{breaker.Success, breaker.Success}
	case read.Code == tool.CodeCancelled || raw != nil && raw.Code == tool.CodeCancelled,
		read.Evidence == tool.NotExecuted && read.Code.Class() != tool.Transient,
		read.KnownDown, // which the backend knows better than its breakers
		lostAcknowledgement(read, effect):
		return nothing
	case raw != nil && raw.Unreached:
		return verdict{connection: breaker.Failure}
	case read.CallerFault || read.Evidence == tool.Definite && read.Code.Class() != tool.Transient:
		// The backend answered: it is alive, whatever the answer.
		return verdict{breaker.Success, breaker.Success}
	default:
		return verdict{tool: breaker.Failure}
	}
}

// lostAcknowledgement reports that nothing is known of a call that must not be repeated
// but that its answer was lost with the connection: it may have been done as it should.
func lostAcknowledgement(failure *tool.Failure, effect tool.Effect) bool {
	return effect == tool.NonIdempotent && failure.Evidence == tool.Ambiguous &&
		failure.Code == tool.CodeDependencyUnavailable && failure.Status == 0
}

// cutShort reports that the deadline that ended a call is not its tool's but that of
// somebody who would not wait so long: a caller, a request with a shorter timeout, a
// verification. It says nothing about the backend, which others wait for.
func cutShort(call context.Context) bool {
	return errors.Is(call.Err(), context.DeadlineExceeded) && !errors.Is(context.Cause(call), errCallDeadline)
}

// gates are the breakers that let an attempt through. Each hears of it once.
type gates struct{ tool, connection func(breaker.Outcome) }

// passBreakers asks both breakers, or says which of them refuses.
func (r *runner) passBreakers() (g gates, refused *tool.Failure) {
	var err error
	if g.tool, err = r.route.Breaker.Allow(); err != nil {
		return g, r.circuitOpen(err, r.route.Tool.Name)
	}
	if g.connection, err = r.route.Connection.Allow(); err != nil {
		g.tool(breaker.Ignored)
		return g, r.circuitOpen(err, fmt.Sprintf("the connection to the backend %s", r.route.Tool.Backend))
	}
	return g, nil
}

func (g gates) tell(v verdict) {
	g.tool(v.tool)
	g.connection(v.connection)
}

func (r *runner) circuitOpen(err error, what string) *tool.Failure {
	failure := &tool.Failure{
		Code: tool.CodeCircuitOpen, ErrorType: "circuit_open", Err: err,
		Constraint: what + " has been failing, so nothing is sent to it for a while",
	}
	if open, ok := errors.AsType[*breaker.OpenError](err); ok {
		failure.RetryAfter = open.RetryAfter
		r.trace.BlockedBy(open.Name)
	}
	return failure
}

// connected is the right to send an attempt, which is asked for where there is a
// connection: its breaker hears of that at once. A slow tool must not keep the place of
// the probe for as long as it takes.
type connected struct {
	right backend.Right
	gates gates
}

// Held implements backend.Right.
func (c connected) Held() bool {
	held := c.right == nil || c.right.Held()
	if held {
		c.gates.connection(breaker.Success)
	}
	return held
}
