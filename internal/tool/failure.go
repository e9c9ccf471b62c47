package tool

import (
	"fmt"
	"time"
)

// Evidence says what a failed attempt proves about its effect. It, not the
// code, decides whether the attempt may be repeated.
type Evidence uint8

const (
	// Ambiguous: it may or may not have run. The zero value, because a failure
	// that nobody classified proves nothing.
	Ambiguous Evidence = iota
	// NotExecuted: it provably did not run (DNS, refused, nothing written,
	// REFUSED_STREAM, ...).
	NotExecuted
	// Definite: it ran to an answer, and the answer is this failure.
	Definite
)

var evidenceNames = []string{Ambiguous: "ambiguous", NotExecuted: "not_executed", Definite: "definite"}

// String returns ambiguous, not_executed or definite.
func (e Evidence) String() string { return Named("evidence", evidenceNames, e) }

// Failure is one failed attempt at a backend, as the backend classified it.
type Failure struct {
	Code     Code
	Evidence Evidence
	// Message is what the upstream said, raw, at most a few KiB; the pipeline
	// cleans and caps it before a model sees it. Never a secret of ours.
	Message string
	// Constraint is a short plain sentence on what was violated, such as
	// "the upstream answers 404 Not Found". Empty: derived from Code.
	Constraint string
	// Field is the path of the argument at fault; empty for the call as a whole.
	Field string
	// Hint replaces the code's own hint when not empty.
	Hint string
	// RetryAfter is how long the upstream asked to wait; 0 when it did not.
	RetryAfter time.Duration
	// AllowedAlternatives names tools that may be called instead.
	AllowedAlternatives []string
	// Status is the HTTP status, exec exit code or gRPC code; 0 when none.
	Status int
	// ErrorType is the low-cardinality error.type of telemetry ("503",
	// "connection_refused", "timeout", "tool_error").
	ErrorType string
	// CallerFault marks failures that say nothing about the backend's health
	// (4xx, isError, cancelled): they never count against the breaker.
	CallerFault bool
	// KnownDown marks the failure of a backend that knows itself that it is down, and
	// tries to come back no sooner than after RetryAfter. To ask it before is in vain.
	KnownDown bool
	// Unreached marks the failure of a connection: none could be made, so that nothing was
	// sent. It concerns every tool of the backend alike, where other failures are
	// those of one tool.
	Unreached bool
	// Err is the cause, for the log only.
	Err error
}

// Error makes Failure a Go error, for logs.
func (f *Failure) Error() string {
	if f.Err != nil {
		return fmt.Sprintf("%s (%s): %v", f.Code, f.Evidence, f.Err)
	}
	return fmt.Sprintf("%s (%s): %s", f.Code, f.Evidence, f.Message)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }
