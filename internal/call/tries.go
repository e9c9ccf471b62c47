package call

import (
	"cmp"
	"net/http"

	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/tool"
)

// attempt is what came of one attempt at the backend, or of a guard that did not
// let it through.
type attempt struct {
	// sent says that the backend was asked. Else it is the proof that nothing
	// can have happened.
	sent    bool
	reading interpret.Reading
	// mapped says that a rule of the tool made the failure.
	mapped bool
	stack  string // of a panic of the backend, for the log only
	// upstreamID is what the upstream calls it; empty where it does not say.
	upstreamID string
}

// tries is what came of the attempts of a call so far.
type tries struct {
	// sent counts those that were sent.
	sent int
	// ambiguous says that one of them may have had its effect without an answer.
	ambiguous bool
	// reading is how the call ends if there is no further attempt.
	reading interpret.Reading
	// cause is that of the last failure, and stack that of a panic: for the log
	// only.
	cause error
	stack string
	// mapped says that a rule of the tool made the failure of the last one.
	mapped bool
	// upstreamID is what the upstream calls the last one of which it has said so.
	upstreamID string
}

// begin counts an attempt before it is made: a bug in the middle of it must not
// look as if nothing had been sent.
func (t *tries) begin() { t.sent++ }

// add takes what came of the attempt that was begun, and returns its failure, as
// what it counts; nil when it worked. reopened says that the call was claimed
// before this time.
func (t *tries) add(a attempt, effect tool.Effect, reopened bool) *tool.Failure {
	before := t.reading.Failure
	t.reading, t.upstreamID = a.reading, cmp.Or(a.upstreamID, t.upstreamID)
	if a.stack != "" {
		t.stack = a.stack
	}
	failure := a.reading.Failure
	if !a.sent {
		t.sent--
	}
	switch {
	case !a.sent && t.sent > 0:
		// A guard kept the call from being sent again, so it ends as its last
		// attempt did: the guard's own code would say that nothing was sent. Of
		// the guard remains how long to wait.
		kept := *before
		kept.RetryAfter = max(kept.RetryAfter, failure.RetryAfter)
		t.reading.Failure = &kept
		return failure
	case failure == nil:
		return nil
	case a.sent:
		t.mapped = a.mapped
		t.ambiguous = t.ambiguous || failure.Evidence == tool.Ambiguous
		t.cause = failure.Err
	}
	if !a.mapped && effect == tool.Keyed && (t.ambiguous || reopened) && keyInUse(failure) {
		t.reading.Failure = stillRunning(failure)
	}
	return t.reading.Failure
}

// keyInUse reports what may be the answer of an upstream that still works on an
// earlier attempt with the same key: a 409 of which the tool's rules say nothing.
// It is not how the call ended.
func keyInUse(failure *tool.Failure) bool {
	return failure.Status == http.StatusConflict && failure.Evidence == tool.Definite
}

func stillRunning(conflict *tool.Failure) *tool.Failure {
	return &tool.Failure{
		Code: tool.CodeTimeout, Evidence: tool.Ambiguous, ErrorType: conflict.ErrorType, Err: conflict.Err,
		Constraint: "the upstream says that this attempt is in conflict, and an earlier one with the same key may still be under way",
		Message:    conflict.Message, RetryAfter: conflict.RetryAfter,
	}
}

// mayRepeat is the rule that keeps a call from happening twice: what provably
// did not run may be sent again; what may have run, only when repeating it is
// harmless; what ran to an answer, never. An open breaker is terminal, and so is a
// backend that knows that it is down for a while: waiting here would only hold the
// caller.
func mayRepeat(failure *tool.Failure, effect tool.Effect) bool {
	if failure.Code.Class() != tool.Transient || failure.KnownDown {
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
