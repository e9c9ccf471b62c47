package conversation

import (
	"context"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// Write is a change of a conversation: its head, from one text to another, and the
// messages that come to it.
type Write struct {
	Key Key
	// Was is the head that is replaced, byte for byte; empty where there is none.
	Was, Head []byte
	// After is how many messages there are.
	After    int64
	Messages [][]byte
	// TTL is how long all of it is kept from now on.
	TTL time.Duration
	// Closings are the calls of the conversation that it closes, in the same step.
	Closings []dedupe.Closing
}

// Stored is a conversation as it is kept.
type Stored struct {
	// Head is empty where there is no conversation.
	Head []byte
	// Messages are those from one on that was asked for, as many as there is room for.
	Messages [][]byte
	// Now is the store's time.
	Now time.Time
}

// Listed is a conversation of a listing.
type Listed struct {
	ID string
	// Head is its Brief; empty where Err says why it cannot be read.
	Head []byte
	Err  error
}

// Page is a part of a listing.
type Page struct {
	// Found may be empty on a page that is not the last.
	Found []Listed
	// Next is where the listing goes on; empty after the last page.
	Next string
}

// Store keeps conversations. Every error means that nothing is known about whether the
// request took effect; asking again is always safe. Errors of what cannot be what was
// written wrap the store's own word for that.
type Store interface {
	// WriteConversation replaces the head, when it is the one that the write is of,
	// appends the messages, and closes calls whose records are those that were seen, in
	// one step: all of it or nothing. It reports true also when head and messages are
	// there already.
	WriteConversation(ctx context.Context, w Write) (written bool, err error)
	// Note is dedupe.Store's: who closes a call has looked at it here.
	Note(ctx context.Context, n dedupe.Note) (dedupe.Known, error)
	// ReadConversation returns a conversation with its messages from one on: at least
	// one, and as many as have no more than most bytes. Without any, for most of 0.
	ReadConversation(ctx context.Context, key Key, from int64, most int) (Stored, error)
	// ListConversations lists those of a tenant, about most of them, in no particular
	// order. from is empty, or the Next of the page before; another is an error that
	// wraps dedupe.ErrInvalid. The work of a page is bounded. One that cannot be what was
	// written keeps none of the others from being listed.
	ListConversations(ctx context.Context, tenant, from string, most int) (Page, error)
}
