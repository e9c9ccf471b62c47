// Package timeline tells a conversation as somebody reads it who looks for what went wrong:
// what the user asked for, what the model said and called, what it was told, and what it
// did then. It knows no store and no clock. It reads the messages that a conversation keeps
// and the records of its calls; what it makes of them is bounded in proportion to them.
package timeline

import (
	"iter"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/provider"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Bounds of what is kept of a text.
const (
	// maxSaid is how much is told of what the user and the model say, maxResult of a result
	// that is no error, in characters.
	maxSaid, maxResult = 500, 200
	// maxError is how much is kept of an error, in bytes: more than any that the sidecar
	// makes has, so those stand word for word.
	maxError = 16 << 10
	// maxArguments is how much is kept of the arguments of a call, in bytes. Longer ones are
	// not compared.
	maxArguments = 8 << 10
)

// Message is one that a conversation keeps.
type Message struct {
	JSON string
	// Turn is the turn id of the calls in it.
	Turn string
}

// Record is what is recorded of a call: Absent where that is forgotten.
type Record struct {
	dedupe.Record // without its result and its details

	ID, Turn string
	// Prompt is the prompt_id of the call; empty where it had none.
	Prompt string
	// Arguments are the canonical ones, without what is never shown; empty where they are
	// not kept. Cut: there are more of them.
	Arguments string
	Cut       bool
	// Text is what the model was told, and IsError whether that is an error; empty where
	// there is no result.
	Text    string
	IsError bool
	// Resolution is who has settled it, when and why; nil where nobody has. ToldBefore is then
	// what the model was told until then.
	Resolution *sidecallv1.Resolution
	ToldBefore string
	// Damage says why the record cannot be read.
	Damage string
}

// Input is what a timeline is made of.
type Input struct {
	Provider provider.Format
	// Messages are those that the conversation keeps; nil where it keeps none.
	Messages iter.Seq[Message]
	// Records are those of its calls, in any order.
	Records []Record
	// Redact takes out of the arguments of a tool what is never shown; nil takes nothing out.
	Redact func(tool string, arguments map[string]any) map[string]any
}

// Timeline is a conversation as it went.
type Timeline struct {
	Prompts []Prompt
	Events  []Event
	// First is the event of the first error that was not recovered from; -1 where there
	// is none.
	First int
	// Messages is how many were read.
	Messages int
}

// Prompt is what the user asked for, up to the next.
type Prompt struct {
	// ID is the prompt_id that its calls were made with; empty where none is known.
	ID string
	// Over: the model has had its last word, or the next prompt follows. It is not known of
	// what is told by records alone.
	Over bool
	// Unappended: no message tells of its calls, only their records.
	Unappended bool
}

// Kind is the kind of an event.
type Kind uint8

// The kinds.
const (
	UserSaid  Kind = iota + 1 // a text of the user
	ModelSaid                 // a text of the model
	Called                    // a call of the model, with its result
	Unread                    // a message that cannot be read; Text says why
)

// Event is one thing that happened.
type Event struct {
	Kind Kind
	// Prompt is the index of its prompt.
	Prompt int
	// Message is the one that it stands in, counted from 0; -1 for none.
	Message int
	Text    string
	// Call is that of a Called; nil for other kinds.
	Call *Call

	reply int // what the model said and called at once has one number
}

// Call is one of the model.
type Call struct {
	ID, Turn, Tool string
	// Arguments are JSON, without what is never shown. Cut: there are more of them.
	Arguments string
	Cut       bool
	// Record is what is recorded of it; nil where there is no record: it was refused before
	// it was claimed, was made elsewhere, or is forgotten for so long that nothing is left.
	Record *Record
	// Answered: the model has been told Text. TextCut: there is more of it.
	Answered bool
	Text     string
	TextCut  bool
	// Failure is what there is to an error; nil for a call that worked, or has no answer.
	Failure *Failure

	sum [32]byte // of tool and arguments
}

// Calls visits the calls of a timeline.
func (t *Timeline) Calls(yield func(Event) bool) {
	for _, e := range t.Events {
		if e.Call != nil && !yield(e) {
			return
		}
	}
}
