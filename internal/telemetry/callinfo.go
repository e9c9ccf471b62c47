package telemetry

import (
	"github.com/sidecall/sidecall/internal/tool"
)

// unknownToolName stands in metrics for every name that is not registered.
const unknownToolName = "_unknown"

// CallInfo says what is known of a call when it arrives.
type CallInfo struct {
	tool.CallID

	Tool       string
	Registered bool
	// Description of the tool, as models are told it; empty when it is not registered.
	Description string
	Prompt      string
	Labels      map[string]string
	// Apart: it is no call of its prompt. Nothing is to be run, or nobody knows whose
	// it is.
	Apart bool
}

// CallEnd says how a call ended.
type CallEnd struct {
	// Outcome is ok, empty, partial, replayed, retried, transient_fail,
	// permanent_fail, unknown or refused.
	Outcome string
	// Code is empty when the call did not fail.
	Code     tool.Code
	Attempts int
	Replayed bool
	// Origin is the Traceparent of the call whose result was replayed; empty when it
	// was not traced, and when nothing was replayed.
	Origin   string
	Recorded bool
	// Profile is the one that applied; empty when there is none of that name.
	Profile string
	// Rule says by which of Rules the call was refused before anything was sent;
	// empty when it was not.
	Rule string
	// CallerLeft says that nobody waited for the result any more.
	CallerLeft bool
	// Shape is the shape of the arguments: names and types, no values.
	Shape string
	// Notes are changes made to the arguments (coercions).
	Notes []string
	// Err is the cause of a failure, for the log only; nil when there is none.
	Err error
	// Stack is set for a panic.
	Stack string
}
