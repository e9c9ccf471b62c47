package tool

import (
	"maps"
	"slices"
)

// Code names one kind of failure. The set is fixed: programs switch on it, and
// the README documents each in one table.
type Code string

// The codes, in the order of the README's table.
const (
	CodeInvalidArgs           Code = "INVALID_ARGS"
	CodeUnknownTool           Code = "UNKNOWN_TOOL"
	CodeNotFound              Code = "NOT_FOUND"
	CodePermissionDenied      Code = "PERMISSION_DENIED"
	CodeUnauthenticated       Code = "UNAUTHENTICATED"
	CodeConflict              Code = "CONFLICT"
	CodeBusinessRule          Code = "BUSINESS_RULE"
	CodeUnrecoverable         Code = "UNRECOVERABLE"
	CodeRateLimited           Code = "RATE_LIMITED"
	CodeTimeout               Code = "TIMEOUT"
	CodeDependencyUnavailable Code = "DEPENDENCY_UNAVAILABLE"
	CodeCircuitOpen           Code = "CIRCUIT_OPEN"
	CodeOverloaded            Code = "OVERLOADED"
	CodeOutcomeUnknown        Code = "OUTCOME_UNKNOWN"
	CodeInProgress            Code = "IN_PROGRESS"
	CodeIDReused              Code = "ID_REUSED"
	CodeDuplicateEffect       Code = "DUPLICATE_EFFECT"
	CodeBudgetExceeded        Code = "BUDGET_EXCEEDED"
	CodeLoopDetected          Code = "LOOP_DETECTED"
	CodeApprovalRequired      Code = "APPROVAL_REQUIRED"
	CodeInvalidOutput         Code = "INVALID_OUTPUT"
	CodeCancelled             Code = "CANCELLED"
	CodeStoreUnavailable      Code = "STORE_UNAVAILABLE"
	CodeInternal              Code = "INTERNAL"
)

// Class sorts the codes by what can be done about them.
type Class string

const (
	// Malformed: the call is wrong; correct it and call again.
	Malformed Class = "MALFORMED"
	// Transient: the call is fine, the way to the tool is not; later.
	Transient Class = "TRANSIENT"
	// Hard: a definite no; replan.
	Hard Class = "HARD"
	// Unknown: it may or may not have happened; verify before anything else.
	Unknown Class = "UNKNOWN"
	// Guard: a limit of the loop; wrap up or change the approach.
	Guard Class = "GUARD"
)

type codeFacts struct {
	class     Class
	retryable bool
}

// codes is the single table behind Class, Retryable and Codes.
var codes = map[Code]codeFacts{
	CodeInvalidArgs:           {Malformed, true},
	CodeUnknownTool:           {Malformed, true},
	CodeNotFound:              {Hard, false},
	CodePermissionDenied:      {Hard, false},
	CodeUnauthenticated:       {Hard, false},
	CodeConflict:              {Hard, true},
	CodeBusinessRule:          {Hard, false},
	CodeUnrecoverable:         {Hard, false},
	CodeRateLimited:           {Transient, true},
	CodeTimeout:               {Transient, true},
	CodeDependencyUnavailable: {Transient, true},
	CodeCircuitOpen:           {Transient, true},
	CodeOverloaded:            {Transient, true},
	CodeOutcomeUnknown:        {Unknown, false},
	CodeInProgress:            {Unknown, true},
	CodeIDReused:              {Malformed, true},
	CodeDuplicateEffect:       {Hard, false},
	CodeBudgetExceeded:        {Guard, false},
	CodeLoopDetected:          {Guard, true},
	CodeApprovalRequired:      {Guard, false},
	CodeInvalidOutput:         {Hard, false},
	CodeCancelled:             {Transient, true},
	CodeStoreUnavailable:      {Transient, true},
	CodeInternal:              {Hard, false},
}

// Codes returns the fixed codes, sorted by name.
func Codes() []Code { return slices.Sorted(maps.Keys(codes)) }

// Class returns the class of the code; Hard for a code that does not exist.
func (c Code) Class() Class {
	if f, ok := codes[c]; ok {
		return f.class
	}
	return Hard
}

// Retryable reports whether the model may usefully call again, corrected or
// later, as the hint says.
func (c Code) Retryable() bool { return codes[c].retryable }

// Valid reports whether c is one of the fixed codes.
func (c Code) Valid() bool { _, ok := codes[c]; return ok }

// Error is the one shape of every error that reaches a model: exactly these
// five, always all present. It is data, not a Go error.
type Error struct {
	Code Code `json:"code"`
	// Field is the path of the argument at fault, as in google.rpc.BadRequest
	// (priority, items[2].sku, ["a.b"].c); empty for the call as a whole.
	Field string `json:"field"`
	// Constraint is "<json-schema-keyword>: <json value>", or a short plain
	// sentence where no keyword names the failure.
	Constraint string `json:"constraint"`
	// Received is the JSON value as received, at most 200 characters, or
	// (missing), or (redacted); for an upstream failure what the upstream said.
	Received string `json:"received"`
	// Hint is one or two imperative sentences: what to change, to what, then
	// what to call.
	Hint string `json:"hint"`
}

const (
	// ReceivedMissing stands in Error.Received for an absent value.
	ReceivedMissing = "(missing)"
	// ReceivedRedacted stands in Error.Received for a secret value.
	ReceivedRedacted = "(redacted)"
)
