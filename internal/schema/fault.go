package schema

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// fault is why a text is not the arguments of a call, and where.
type fault struct {
	err    error
	offset int // byte at fault; -1 when the value as a whole is
	value  any // the value, when it parsed but is no object

	field    string // path of the innermost value that was being read
	expected string // what the grammar wants at offset
	found    rune   // what stands there; utf8.RuneError at the end of the text
	name     string // of a member that appears twice
	// separated: a comma or colon stands between the last good token and offset.
	separated bool
	// openString: what stands behind the last good token is a string.
	openString bool
}

// newFault asks the decoder where it stands. It must be called before the
// decoder is used again.
func newFault(dec *jsontext.Decoder, err error) *fault {
	f := &fault{err: err, offset: int(dec.InputOffset()), found: utf8.RuneError}
	f.field = decoderPath(dec, fromPointer(dec.StackPointer()))
	if syntactic := (*jsontext.SyntacticError)(nil); errors.As(err, &syntactic) {
		f.offset = int(syntactic.ByteOffset)
		f.field = decoderPath(dec, fromPointer(syntactic.JSONPointer))
		if errors.Is(err, jsontext.ErrDuplicateName) {
			f.name = syntactic.JSONPointer.LastToken()
		}
	}
	f.expected, f.separated = expectation(dec)
	f.openString = bytes.HasPrefix(bytes.TrimLeft(dec.UnreadBuffer(), ",: \t\r\n"), []byte{'"'})
	return f
}

// decoderPath writes a path whose tokens are array indexes where the decoder
// is inside an array.
func decoderPath(dec *jsontext.Decoder, l location) string {
	var b strings.Builder
	for i, token := range l {
		if i < dec.StackDepth() {
			if kind, _ := dec.StackIndex(i + 1); kind == jsontext.KindBeginArray {
				b.WriteString("[" + token + "]")
				continue
			}
		}
		writeName(&b, token)
	}
	return b.String()
}

// expectObject is the expectation at the very beginning.
const expectObject = "a JSON object, beginning with {"

// expectation says what may follow the last good token, and whether a separator
// already did.
func expectation(dec *jsontext.Decoder) (expected string, separated bool) {
	kind, length := dec.StackIndex(dec.StackDepth())
	rest := strings.TrimLeft(string(head(dec.UnreadBuffer(), 64)), " \t\r\n")
	comma, colon := strings.HasPrefix(rest, ","), strings.HasPrefix(rest, ":")
	switch {
	case kind == jsontext.KindBeginObject && length%2 == 1 && !colon:
		return `":"`, false
	case kind == jsontext.KindBeginObject && length%2 == 1:
		return "a value", true
	case kind == jsontext.KindBeginObject && length == 0:
		return `a name in double quotes or "}"`, false
	case kind == jsontext.KindBeginObject && comma:
		return "a name in double quotes", true
	case kind == jsontext.KindBeginObject:
		return `"," or "}"`, false
	case kind == jsontext.KindBeginArray && length == 0:
		return `a value or "]"`, false
	case kind == jsontext.KindBeginArray && comma:
		return "a value", true
	case kind == jsontext.KindBeginArray:
		return `"," or "]"`, false
	default:
		return expectObject, false
	}
}

func head(b []byte, n int) []byte { return b[:min(n, len(b))] }
