package output

import (
	"bytes"
	"crypto/rand"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sidecall/sidecall/backend"
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
	// DefaultCarry is the most that a result carries besides its content, in
	// bytes: blocks and structured result. With a content of up to 1 MiB it stays
	// under the 4 MiB that a gRPC client reads unless told otherwise.
	DefaultCarry = 3 << 20
)

// Input is a reply, and the rules for what becomes of it.
type Input struct {
	Reply    backend.Reply
	ToolName string
	// Limit is the most characters of Content, at least 1; 0 or less means
	// DefaultLimit.
	Limit int
	// Strategy is auto, json, head, tail or head_tail; anything else means auto.
	// json falls back to head_tail for what is not JSON.
	Strategy string
	// Untrusted output is wrapped in a boundary.
	Untrusted bool
	// Keep says that a cut output will be kept, so that the notice may name it.
	Keep bool
	// KeepLimit bounds Kept, in bytes; 0 means DefaultKeep.
	KeepLimit int64
	// CarryLimit bounds Blocks and StructuredJSON together, in bytes; 0 means
	// DefaultCarry.
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
	// notice; nil without Ref. It may share memory with Input.Reply.
	Kept []byte
	// KeptComplete: Kept is all that the tool returned.
	KeptComplete bool
	// Blocks are the non-text parts, without the data that did not fit.
	Blocks []backend.Block
	// StructuredJSON is the structured result, or the JSON text itself; cleaned.
	// Empty when Content is cut, or when it is larger than a result may carry.
	StructuredJSON string
}

// NewRef returns the handle of a kept output: "out_" and 128 random bits or
// more, of [A-Za-z0-9_-]. Who does not have it cannot guess it.
func NewRef() string { return "out_" + rand.Text() }

// Shape turns a reply into what the model receives.
func Shape(in Input) Shaped {
	in.fill()
	d := compose(&in)
	if !in.Untrusted && !d.cut && d.chars <= in.Limit {
		return d.shown(string(d.body), in.CarryLimit)
	}
	return shape(in, d)
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

// document is a reply as one clean text.
type document struct {
	body  []byte
	chars int
	// tree is the JSON to show parts of: body, or, when body is the beginning
	// of a JSON text, that beginning made whole. nil when body is not JSON.
	tree []byte
	// structured is the JSON of the reply as the program gets it.
	structured []byte
	blocks     []backend.Block
	// cut: there was more, but reading stopped.
	cut bool
}

// compose cleans the parts of a reply and puts them together.
func compose(in *Input) document {
	reply := &in.Reply
	d := document{cut: reply.Cut, structured: reply.Structured}
	text, declared := reply.Text, reply.JSON
	switch {
	case reply.Binary != "":
		text, declared = []byte(describeBinary(reply.Binary, reply.Size, reply.Cut)), false
		d.cut = false // the description is whole
	case len(text) == 0 && len(reply.Blocks) == 0:
		text, declared = reply.Structured, true
	}
	d.read(text, declared)
	if declared && d.structured == nil && !d.cut {
		d.structured = d.tree
	}
	if len(reply.Blocks) > 0 {
		d.blocks = carry(reply.Blocks, in.CarryLimit)
		d.body = describe(bytes.Clone(d.body), d.blocks, len(reply.Blocks))
		withoutLargeText(d.blocks, in.CarryLimit)
		d.tree = nil
	}
	d.chars = countChars(d.body)
	return d
}

// read cleans the text and finds out whether it is JSON.
func (d *document) read(text []byte, declared bool) {
	text = withoutBOM(text)
	if d.cut {
		text = wholeRunes(text)
	}
	if !declared && !looksJSON(text) {
		d.body = clean(text)
		return
	}
	scan := scanJSON(text)
	switch {
	case scan.valid && scan.dirty:
		d.body = cleanStrings(text)
		d.tree = d.body
	case scan.valid:
		d.body, d.tree = text, text
	case d.cut && scan.open && scan.safe > len(text)/2:
		// What was read of the last value is dropped; all before is shown as
		// the JSON that it is.
		closed := slices.Concat(text[:scan.safe], scan.closers)
		d.tree = cleanStrings(closed)
		d.body = d.tree[:len(d.tree)-len(scan.closers)]
	default:
		d.body = clean(text)
	}
}

// looksJSON reports whether it is worth finding out if text is JSON.
func looksJSON(text []byte) bool {
	i := skipSpace(text, 0)
	return i < len(text) && (text[i] == '{' || text[i] == '[')
}

// wholeRunes drops a code point that was cut off at the end.
func wholeRunes(text []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if b := text[len(text)-n:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}

// shown is the result when content shows the whole document.
func (d *document) shown(content string, room int64) Shaped {
	s := Shaped{Content: content, OriginalChars: int64(d.chars), ReturnedChars: int64(d.chars), Blocks: d.blocks}
	for _, b := range d.blocks {
		room -= int64(len(b.Data) + len(b.Text))
	}
	switch {
	case len(d.structured) == 0 || int64(len(d.structured)) > room:
	case len(content) == len(d.structured) && len(d.tree) > 0 && &d.structured[0] == &d.tree[0]:
		s.StructuredJSON = strings.TrimSpace(content) // shares its memory
	default:
		if c, ok := CleanJSON(d.structured); ok {
			s.StructuredJSON = string(bytes.TrimSpace(c))
		}
	}
	return s
}
