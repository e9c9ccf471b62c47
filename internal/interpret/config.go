package interpret

import (
	"encoding/json"

	"github.com/sidecall/sidecall/internal/tool"
)

// Config says how the replies of one tool are read. The zero value reads them
// by the backend's own classification alone.
type Config struct {
	// Errors are replies that are errors. The first that matches counts.
	Errors []Rule
	// Success is a condition that a reply must meet to be a success. One that
	// meets it is a success even where the backend says failure (an exit code 1
	// that means "no match"). Empty: what the backend says.
	Success string
	// Result is the part of a JSON reply that is the result: a JSON pointer
	// (RFC 6901) when it starts with "/", else an expression over body.
	Result string
	// EmptyWhen is a condition under which a success found nothing. Empty: a
	// reply that is blank, null, [], {} or "".
	EmptyWhen string
	// Partial reads the items of a call that was done in part; nil for none.
	Partial *PartialRule
	// Check checks a result against the output schema; nil for none. Its error
	// says, in words for a model, what is wrong.
	Check func(result json.RawMessage) error
}

// Rule turns a reply into an error.
type Rule struct {
	// When is the condition.
	When string
	// Code of the error. A code of the hard kind makes the failure definite.
	// One of the transient kind leaves it ambiguous, unless NotExecuted or the
	// backend has proved as much (rejects_before_work, an exit code): the tool
	// may be called again where repeating is harmless.
	Code tool.Code
	// Hint, Field and AllowedAlternatives become those of the error.
	Hint                string
	Field               string
	AllowedAlternatives []string
	// NotExecuted: such a reply proves that nothing was done.
	NotExecuted bool
}

// PartialRule reads a reply that tells item by item what was done. Besides the
// variables of every expression, all but Items know item and index.
type PartialRule struct {
	// Items is the list. A reply without it is read as a whole.
	Items string
	// OK is whether an item was done; done(item) asks what it says itself: an HTTP
	// status, a google.rpc.Status, ok or success, an error that is there or null.
	OK string
	// ID is what the item is called, for who sends the others again; empty: by its
	// index alone.
	ID string
	// Content is what to show of an item that was done; empty: the item.
	Content string
	// Error is what to show of one that was not; empty: the item.
	Error string
}
