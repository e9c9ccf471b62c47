// Package tool is the vocabulary that every other package speaks: what a tool
// is, what a call of it is, and the one shape of an error. It imports nothing
// of this module, so that any package may import it.
package tool

import (
	"encoding/json"
	"fmt"
	"time"
)

// Effect says what repeating a call of a tool would do. It decides what may be
// re-sent after which failure.
type Effect uint8

// The zero value is NonIdempotent on purpose: a tool that nobody described is
// treated as the most dangerous kind.
const (
	// NonIdempotent must not be repeated: it is re-sent only when it provably
	// did not run.
	NonIdempotent Effect = iota
	// ReadOnly has no effect.
	ReadOnly
	// Idempotent may be repeated: that changes nothing more.
	Idempotent
	// Keyed may be repeated because the upstream honours the idempotency key
	// that Sidecall forwards, which is the same for every attempt of a call.
	Keyed
)

var effectNames = [...]string{
	NonIdempotent: "non_idempotent",
	ReadOnly:      "read_only",
	Idempotent:    "idempotent",
	Keyed:         "keyed",
}

// String returns the name used in the config file and in records.
func (e Effect) String() string { return Named("effect", effectNames[:], e) }

// Named is the name of a value of an enumeration; kind(7) where names has none for it.
func Named[V ~uint8](kind string, names []string, v V) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(v))
}

// ParseEffect is the inverse of String.
func ParseEffect(s string) (Effect, error) {
	for i, name := range effectNames {
		if s == name {
			return Effect(i), nil
		}
	}
	return NonIdempotent, fmt.Errorf("unknown effect %q: want read_only, idempotent, keyed or non_idempotent", s)
}

// Repeatable reports whether a call may be sent again although an earlier
// attempt may have run.
func (e Effect) Repeatable() bool { return e != NonIdempotent }

// Harmless reports whether a second call of its own, with an id and an idempotency
// key of its own, would change nothing more.
func (e Effect) Harmless() bool { return e == ReadOnly || e == Idempotent }

// Tool is what the registry knows of one tool. It is immutable once registered.
type Tool struct {
	// Name is unique in the registry; it is what the model calls.
	Name string
	// Description is shown to the model.
	Description string
	// InputSchema is a JSON Schema object; never empty ({"type":"object"} at
	// the least).
	InputSchema json.RawMessage
	// OutputSchema is a JSON Schema of the structured result; nil when the
	// tool declares none.
	OutputSchema json.RawMessage
	Effect       Effect
	// Backend is the name of the backend it lives on; "sidecall" for built-in
	// tools.
	Backend string
	// Annotations are free hints of the backend about the tool (MCP titles and
	// the like); never trusted for a decision.
	Annotations map[string]string
	// DefinitionHash is of what the backend says of a tool that it declares itself:
	// "sha256:" and hex. Empty for other tools.
	DefinitionHash string

	Policy Policy
}

// Policy is how calls of a tool are run. Zero durations and numbers are not
// defaults: whoever builds a Tool fills every field (config does).
type Policy struct {
	// AttemptTimeout bounds one invocation of the backend.
	AttemptTimeout time.Duration
	// Deadline bounds the whole call, waits and retries included.
	Deadline time.Duration
	Retry    Retry

	// RejectsBeforeWork lists the HTTP statuses that prove that this upstream did not
	// start working: 429, where nothing was said. Elsewhere they prove nothing.
	RejectsBeforeWork []int
	// FailsCleanly is the operator's word that a call which the tool itself says
	// has failed (an exit code, an MCP isError) has done nothing.
	FailsCleanly bool

	// MaxOutputChars limits content in characters (code points), notice
	// included.
	MaxOutputChars int
	// OutputStrategy is auto, json, head, tail or head_tail.
	OutputStrategy string
	// Untrusted output is wrapped in a boundary that it cannot forge.
	Untrusted bool

	// Sequential tools of one batch run one after the other, in request order.
	Sequential bool
	// CancelWithCaller ends an attempt when the caller leaves, as tools do that
	// undo what they have begun. Without it the attempt goes on and is recorded.
	// It says nothing of read_only tools, which always end with their caller.
	CancelWithCaller bool
	// Coerce allows "5" to become 5 where the schema wants a number.
	Coerce bool
	// ForwardUndeclared sends arguments that the input schema does not name.
	ForwardUndeclared bool
	// VerifyWith names the read-only tool that can tell whether a call whose
	// outcome is unknown has happened; empty when there is none.
	VerifyWith string
	// EffectKey says which calls of the tool have the same effect; without Args none
	// but those with the same id.
	EffectKey EffectKey
	// ApprovalTTL is how long a person's word on a call is waited for, and counts once it is
	// given. ConfirmAfter is after how many failures of the tool in a prompt a person is asked
	// before its next call; 0 for never.
	ApprovalTTL  time.Duration
	ConfirmAfter int
	// Polling tools are expected to be repeated with the same arguments.
	Polling bool
	// RefuseTainted refuses the tool once untrusted output has entered the prompt.
	RefuseTainted bool
	// Sensitive lists argument names whose values are never shown.
	Sensitive []string
	// MaxInFlight bounds calls of this tool in flight; 0 means that only the
	// backend's bound applies.
	MaxInFlight int
}

// EffectKey says which calls of a tool have the same effect, which is not had again.
type EffectKey struct {
	// Args are the arguments by which they are the same.
	Args []string
	// WholeTenant counts the calls of all its conversations, else those of one.
	WholeTenant bool
	// Window is how long after its end an effect is not had again.
	Window time.Duration
}

// Retry is the retry policy of a tool.
type Retry struct {
	// MaxAttempts counts the first one too; at least 1.
	MaxAttempts int
	// Base is the ceiling of the first wait; each further ceiling is
	// Multiplier times the last, up to Max. The wait is drawn uniformly
	// between 0 and the ceiling (full jitter).
	Base       time.Duration
	Multiplier float64
	Max        time.Duration
}
