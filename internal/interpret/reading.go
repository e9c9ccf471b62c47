package interpret

import "github.com/sidecall/sidecall/internal/tool"

// Outcome is what became of a call.
type Outcome uint8

const (
	// OK: the tool ran and returned something. The zero value.
	OK Outcome = iota
	// Empty: the tool ran and found nothing.
	Empty
	// Partial: the tool did some of its items.
	Partial
	// Failed: see Reading.Failure.
	Failed
)

var outcomeNames = []string{OK: "ok", Empty: "empty", Partial: "partial", Failed: "failed"}

// String returns ok, empty, partial or failed.
func (o Outcome) String() string { return tool.Named("outcome", outcomeNames, o) }

// Reading is a reply, understood.
type Reading struct {
	Outcome Outcome
	// Failure is set exactly when Outcome is Failed.
	Failure *tool.Failure
	// Items of a reply that told item by item; at most maxItems. A failure has them
	// too, when none was done.
	Items []Item
	// Total is how many items the reply tells of, and Done how many of them were done.
	Total, Done int
	// Unread: the reply tells item by item what was done, but could not be read so.
	Unread bool
	// Reply is the reply, with the result selected.
	Reply tool.Reply
}

// Item is one item of a call that was done in part.
type Item struct {
	// Index counts from 0 in the order of the reply.
	Index int
	// ID is what it is called; empty when that is not known.
	ID string
	OK bool
	// Ambiguous: it failed so that it may have been done all the same.
	Ambiguous bool
	// Content is set when OK, Error when not.
	Content string
	Error   *tool.Error
}
