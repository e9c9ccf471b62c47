package output

import (
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// DefaultLimit is the output limit, in characters, of a tool that states none.
	DefaultLimit = 8_000
	// MinLimit is the least output limit, in characters, under which a cut
	// result has its complete notice, the boundary included, and strategy json
	// shows values. Below it the notice is shortened, and the result left out
	// when there is no room for it.
	MinLimit = 640
	// DefaultKeep is the most that is kept of a cut output, in bytes.
	DefaultKeep = 10 << 20
	// DefaultCarry is the most that a result holds, in bytes: its content, its
	// blocks and the structured result. With what else a response has to say it
	// stays under 3 MiB, and well under the 4 MiB that a gRPC client reads unless
	// told otherwise.
	DefaultCarry = 3<<20 - 32<<10
)

// Secrets takes secrets out of what a tool returned. What holds none is returned as
// it is.
type Secrets interface {
	// Bytes takes them out of a text.
	Bytes(text []byte) []byte
	// Mask covers them in data that is no text, without changing its length.
	Mask(data []byte) []byte
}

// Input is a reply, and the rules for what becomes of it.
type Input struct {
	Reply tool.Reply
	// Limit is the most characters of Content, at least 1; 0 or less means
	// DefaultLimit.
	Limit int
	// Strategy is auto, json, head, tail or head_tail; anything else means auto.
	// json falls back to head_tail for what is not JSON.
	Strategy string
	// Secrets are taken out of all that is shown, carried and kept, once it is
	// clean; nil when there are none.
	Secrets Secrets
	// Untrusted output is wrapped in a boundary.
	Untrusted bool
	// Remarks are what is said of the result beside it, the fullest first: one of
	// them, as room is, or none.
	Remarks []string
	// Keep says that a cut output will be kept, so that the notice may name it;
	// Conversation is whose it is: see NewRef.
	Keep         bool
	Conversation string
	// KeepLimit bounds Kept, in bytes; 0 means DefaultKeep.
	KeepLimit int64
	// CarryLimit bounds Content, Blocks and StructuredJSON together, in bytes; 0
	// or less means DefaultCarry. Content has two thirds of it at the most.
	CarryLimit int64
}

// Shaped is what the model, and the program around it, receives.
type Shaped struct {
	// Content is valid UTF-8, clean, and at most Limit characters long.
	Content string
	// Truncated: Content does not show all that the tool returned.
	Truncated bool
	// OriginalChars is the length of the cleaned output in characters, or the
	// least number known when reading stopped at the keep limit; ReturnedChars
	// is how many of them Content shows, notice, boundary and markers not
	// counted.
	OriginalChars, ReturnedChars int64
	// Strategy is json, head, tail or head_tail as it was done; empty when
	// nothing was cut. head_tail is head where there is no room for both.
	Strategy string
	// Ref is the handle of what is kept; empty when nothing is.
	Ref string
	// Kept is the cleaned output, up to the keep limit, without boundary and
	// notice, and what else did not fit: Open takes it apart. nil without Ref. It
	// may share memory with Input.Reply.
	Kept []byte
	// KeptComplete: Kept is all that the tool returned.
	KeptComplete bool
	// Blocks are the non-text parts, without the data that did not fit;
	// BlockRefs has, for each, the handle of data that is kept instead.
	Blocks    []tool.Block
	BlockRefs []string
	// StructuredJSON is the structured result, or the JSON text itself; cleaned.
	// Empty when Content is cut, or when it is larger than a result may carry;
	// StructuredRef is then the handle of what is kept of it.
	StructuredJSON, StructuredRef string
}

// contentMost is how many bytes Content may have.
func (in *Input) contentMost() int64 { return in.CarryLimit / 3 * 2 }

// contentSpace is how many bytes Content may take at the most; known before there
// is any.
func (in *Input) contentSpace() int64 {
	return min(in.contentMost(), int64(in.Limit)*utf8.UTFMax)
}

func (in *Input) fill() {
	if in.Limit <= 0 {
		in.Limit = DefaultLimit
	}
	if in.KeepLimit <= 0 {
		in.KeepLimit = DefaultKeep
	}
	if in.CarryLimit <= 0 {
		in.CarryLimit = DefaultCarry
	}
}
