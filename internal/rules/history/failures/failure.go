package failures

import (
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Failure is a call that has failed, and what its admission brought.
type Failure struct {
	Next
	Room
	Logs

	// Operation is the name of the tool, as it was called.
	Operation string
	// Target is what the call was about: Targeting.Of of these Arguments.
	Target string
	Code   tool.Code
	// Error is what went wrong, in the upstream's words where there are any: cleaned,
	// and without secrets. It is kept, and shown as it is, up to a length.
	Error string
	// Untrusted: the words are those of a tool that is not trusted.
	Untrusted bool
	// Arguments are those of the call, decoded, numbers as json.Number; nil when they
	// could not be read, or do not count. Each value that the tool's schema calls sensitive must have
	// been replaced by tool.ReceivedRedacted (schema.Redacted): they are kept, and
	// shown.
	Arguments map[string]any
	// At is now, by a clock that is roughly that of the entries.
	At time.Time
}

// Next is what can be done after a failure.
type Next struct {
	// Corrected are the whole arguments to send instead, as JSON, where that is
	// certain (schema.Suggest); they hold no secret. Empty where it is not.
	Corrected string
	// MayHaveRun: the call may have had its effect. Then nothing that amounts to
	// another call of it is suggested.
	MayHaveRun bool
	// Callable reports whether a tool may be named to this caller: it is there, the
	// profile allows it, and its effect is no stronger than the one that failed. nil:
	// none may.
	Callable func(toolName string) bool
}

// Room is what there is for a block.
type Room struct {
	// CharsLeft is how many characters are left in the prompt, as far as that is known; 0
	// where it is not.
	CharsLeft int
	// MaxChars is the cap of this block, where it is not Options.MaxChars; 0 where it is.
	MaxChars int
}

// Logs are what a conversation has of earlier failures, the oldest first. What cannot be
// read is passed over.
type Logs struct {
	// Earlier are the entries of the log of this operation and target (LogOf), which may
	// hold those of others too, and Recent those of the conversation (RecentLog).
	Earlier, Recent [][]byte
}

// Advice is what comes of a failure.
type Advice struct {
	// Context is the block for the model; empty where there is nothing to say or no
	// room to say it.
	Context string
	// Untrusted: it may have, of earlier attempts, the words of a tool that is not
	// trusted.
	Untrusted bool
	// Entry belongs into the log LogOf of the operation and target, Recent into
	// RecentLog; nil where the failure says nothing for later ones.
	Entry, Recent []byte
}

// worthTelling reports failures that are of the operation: not those of the
// conversation's limits, nor of a call that somebody gave up or that still runs.
func worthTelling(code tool.Code) bool {
	return code.Class() != tool.Guard && code != tool.CodeCancelled && code != tool.CodeInProgress && code != tool.CodeIDReused
}
