package output

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// document is a reply as one clean text.
type document struct {
	in    *Input
	body  []byte
	chars int
	// tree is the JSON to show parts of: body, or, when body is the beginning
	// of a JSON text, that beginning made whole. nil when body is not JSON.
	tree []byte
	// structured is the JSON of the reply as the program gets it.
	structured []byte
	blocks     []tool.Block
	blockRefs  []string
	keeper     keeper
	// cut: there was more, but reading stopped.
	cut bool
}

// compose cleans the parts of a reply and puts them together.
func compose(in *Input) document {
	reply := &in.Reply
	d := document{in: in, cut: reply.Cut, structured: reply.Structured, keeper: newKeeper(in)}
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
		space := in.CarryLimit - in.contentSpace()
		d.blocks, d.blockRefs = carry(in, space, &d.keeper)
		d.body = describe(bytes.Clone(d.body), d.blocks, d.blockRefs, len(reply.Blocks))
		withoutLargeText(d.blocks, space)
		d.tree = nil
	}
	d.chars = countChars(d.body)
	return d
}

// showsTree: the structured result is the JSON that the text is, cleaned already.
func (d *document) showsTree() bool {
	return len(d.structured) > 0 && len(d.tree) > 0 && &d.structured[0] == &d.tree[0]
}

// cleanJSON is a structured result as a program gets it; nil when it is no JSON.
func (in *Input) cleanJSON(b []byte) []byte {
	clean, ok := CleanJSON(b)
	if !ok {
		return nil
	}
	return bytes.TrimSpace(in.jsonWithoutSecrets(clean))
}

// read cleans the text, takes the secrets out and finds out whether it is JSON.
func (d *document) read(text []byte, declared bool) {
	in := d.in
	text = withoutBOM(text)
	if d.cut {
		text = wholeRunes(text)
	}
	if !declared && !backend.LooksJSON(text) {
		d.body = in.withoutSecrets(clean(text))
		return
	}
	if isJSON(text) {
		d.body = in.jsonWithoutSecrets(cleanStrings(text))
		d.tree = d.body
		return
	}
	if d.cut {
		// What was read of the last value is dropped; all before is shown as
		// the JSON that it is.
		if whole, closers := brokenOff(text); whole > len(text)/2 {
			d.tree = in.jsonWithoutSecrets(cleanStrings(slices.Concat(text[:whole], closers)))
			d.body = d.tree[:len(d.tree)-len(closers)]
			return
		}
	}
	d.body = in.withoutSecrets(clean(text))
}

// oneSpelling leaves the white space of JSON out that does not fit: what is kept is
// then spelled as what is shown, and a search finds what was seen there.
func (d *document) oneSpelling() {
	ours := len(d.tree) - len(d.body) // the brackets that close what was read
	d.tree = compact(d.tree)
	d.body = d.tree[:len(d.tree)-ours]
	d.chars = countChars(d.body)
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

// shown is the result when content shows the whole document; what is structured
// has the room that the rest leaves.
func (d *document) shown(content string, space int64) Shaped {
	s := Shaped{Content: content, OriginalChars: int64(d.chars), ReturnedChars: int64(d.chars), Blocks: d.blocks, BlockRefs: d.blockRefs}
	space -= int64(len(content)) + carried(d.blocks)
	switch {
	case len(d.structured) == 0:
	case int64(len(d.structured)) > space:
		if clean := d.in.cleanJSON(d.structured); clean != nil {
			s.StructuredRef = d.keeper.keep(structuredPart, "application/json", clean)
		}
	case len(content) == len(d.structured) && d.showsTree():
		s.StructuredJSON = strings.TrimSpace(content) // shares its memory
	default:
		s.StructuredJSON = string(d.in.cleanJSON(d.structured))
	}
	d.keeper.finish(&s)
	return s
}
