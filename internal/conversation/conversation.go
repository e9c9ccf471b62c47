// Package conversation keeps the messages of agents' conversations, so that a loop
// that died is gone on with by another process, and no call of a model is left without
// its result: a provider takes no array in which one is.
//
// A Book is what a front asks. It reads what is appended only as far as it has to know
// which calls are open; the messages themselves are kept byte for byte. What is
// stored of a conversation is a head, which is replaced whole, and its messages, of
// which there only come more.
package conversation

import (
	"errors"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
)

// MaxMessageBytes is how large a message may be: as much as any client can receive,
// with what stands beside it.
const MaxMessageBytes = 3 << 20

// Key names a conversation.
type Key struct{ Tenant, ID string }

// Message is an entry of the array that a provider is sent.
type Message struct {
	// JSON is the entry, as it was sent.
	JSON string
	// Turn is the turn id of the calls in it.
	Turn string
	// Append names the append that it came with; zero for one without an id.
	Append Name
}

// Name names an append: what was appended, and the id that its client made for it.
type Name [16]byte

// Head is what is known of a conversation beside its messages.
type Head struct {
	// Version is the number of its messages.
	Version  int64           `json:"version"`
	Provider provider.Format `json:"provider"`
	// Bytes of its messages, as they were sent.
	Bytes int64 `json:"bytes"`
	// StartedAt, UpdatedAt and CalledAt are by the store's clock.
	StartedAt time.Time `json:"started_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// CalledAt is when the model made a call: no later than the oldest that is open.
	CalledAt time.Time `json:"called_at"`
	// Open are the calls without a result, in their order.
	Open []Call `json:"open,omitempty"`
	// Left is how many are open, in a listing that leaves them out.
	Left int `json:"left,omitempty"`
	// Prompt is the prompt id of the last append.
	Prompt string `json:"prompt,omitempty"`
	// Nonce makes the head one that no other append writes: a store takes a head that is
	// there already for its own.
	Nonce string `json:"nonce"`
}

// OpenCalls is how many calls have no result.
func (h *Head) OpenCalls() int { return max(len(h.Open), h.Left) }

// Call is one of a model, in a message.
type Call struct {
	ID   string `json:"id"`
	Turn string `json:"turn,omitempty"`
	// Tool is the name that was called.
	Tool string `json:"tool,omitempty"`
	// At is the message that it stands in, counted from 0.
	At int64 `json:"at"`
	// Kind is the type of its item in Responses, where that of its answer goes by it; empty where nobody
	// has noted it.
	Kind string `json:"kind,omitempty"`
}

// ErrBusy is wrapped by the error of an append that others came before, again and
// again.
var ErrBusy = errors.New("the conversation is being written to")

// ErrNone is returned for a conversation that is not, or no longer, kept.
var ErrNone = errors.New("no such conversation")

// ErrCorrupt is wrapped by the error of what cannot be what was stored.
var ErrCorrupt = errors.New("the conversation is damaged")

// Invalid is the error of an append that can be none: nothing was changed, and sent
// again it is refused again.
type Invalid struct {
	// Field is the one of the request that is wrong: messages_json[2].content[0].
	Field string
	Why   string
}

func (e *Invalid) Error() string { return e.Field + ": " + e.Why }

// mostWhy is how many characters are said of what is wrong: a message may name what is in it.
const mostWhy = 500

func invalid(field, format string, args ...any) error {
	return &Invalid{Field: field, Why: tool.Shorten(fmt.Sprintf(format, args...), mostWhy)}
}

// Stale is the error of a request about a version that is not, or no longer, the
// conversation's.
type Stale struct {
	// Field is the one of the request that says what it expected.
	Field             string
	Expected, Version int64
}

func (e *Stale) Error() string {
	return fmt.Sprintf("%s: is %d, and the conversation is at version %d: load it, or resume it, and append to that", e.Field, e.Expected, e.Version)
}

// Full is the error of an append for which a conversation has no room.
type Full struct {
	// Setting is the key of the config that says so.
	Setting string
	Why     string
}

func (e *Full) Error() string {
	return fmt.Sprintf("messages_json: %s; raise %s, or begin another conversation", e.Why, e.Setting)
}
