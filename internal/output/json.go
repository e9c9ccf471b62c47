package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

func isJSON(text []byte) bool { return jsontext.Value(text).IsValid(backend.LooseJSON...) }

func newDecoder(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), backend.LooseJSON...)
}

// CleanJSON cleans a JSON text as Clean does other text, in the strings and
// through their escapes (\u202e, \u001b); numbers, key order and white space stay
// as they are. ok is false when the text is not one JSON value; it is returned
// as it is then.
func CleanJSON(b []byte) (clean []byte, ok bool) {
	b = withoutBOM(b)
	if !isJSON(b) {
		return b, false
	}
	return cleanStrings(b), true
}

func withoutBOM(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\uFEFF")) }

// cleanStrings cleans what is known to be JSON. A string that is clean already keeps its
// spelling.
func cleanStrings(b []byte) []byte {
	if firstTrouble(b) == len(b) && !hidesTrouble(b) {
		return b
	}
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	if bytes.IndexByte(b, '\r') >= 0 { // outside of strings, or it would be no JSON
		b = bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	var text, cleaned []byte
	return rewritten(b, func(dst, value []byte) []byte {
		if value[0] != '"' || firstTrouble(value) == len(value) && !hidesTrouble(value) {
			return append(dst, value...)
		}
		text, _ = jsontext.AppendUnquote(text[:0], value) // lone surrogates become U+FFFD
		cleaned = cleanFrom(cleaned[:0], text, firstTrouble(text))
		return tool.AppendQuoted(dst, cleaned)
	})
}

// hidesTrouble reports whether an escape of a JSON text may stand for a character that
// cleaning changes.
func hidesTrouble(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return false
		}
		switch b[i+1] {
		case 'b', 'f', 'r':
			return true
		case 'u':
			r := codeUnit(b[i+2:])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(0)
				if bytes.HasPrefix(b[i+2:], []byte(`\u`)) {
					low = codeUnit(b[i+4:])
				}
				r = utf16.DecodeRune(r, low)
				i += 6
			}
			if r == utf8.RuneError || r < utf8.RuneSelf && !plain[r] || r >= utf8.RuneSelf && fateOf(r) != kept {
				return true
			}
		}
		b = b[i+2:]
	}
}

// codeUnit reads the four digits of an escape of a JSON text.
func codeUnit(b []byte) rune {
	unit, _ := strconv.ParseUint(string(b[:4]), 16, 16) // which is valid
	return rune(unit)
}

// decoders are kept, each with its stacks: a short result that is not clean is common.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// rewritten is a JSON text with each string, number and word as write appends it.
func rewritten(b []byte, write func(dst, value []byte) []byte) []byte {
	dec := decoders.Get().(*jsontext.Decoder)
	defer func() {
		dec.Reset(new(bytes.Buffer)) // do not keep the text alive
		decoders.Put(dec)
	}()
	dec.Reset(bytes.NewBuffer(b), backend.LooseJSON...)
	out := make([]byte, 0, len(b)+utf8.UTFMax)
	for done := 0; ; {
		if _, err := dec.ReadToken(); err != nil {
			return append(out, b[done:]...)
		}
		end := int(dec.InputOffset())
		value := bytes.TrimLeft(b[done:end], "{}[],: \t\r\n")
		out = append(out, b[done:end-len(value)]...)
		if len(value) > 0 {
			out = write(out, value)
		}
		done = end
	}
}

// brokenOff tells of the beginning of an object or array up to where it consists of
// whole values, and what closes all that is open there; of any other text nothing.
func brokenOff(b []byte) (whole int, closers []byte) {
	dec := newDecoder(b)
	for {
		token, err := dec.ReadToken()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		depth, end := dec.StackDepth(), int(dec.InputOffset())
		if err != nil || depth == 0 {
			return 0, nil
		}
		within, length := dec.StackIndex(depth)
		name := within == jsontext.KindBeginObject && length%2 == 1
		if !name && (end < len(b) || token.Kind() != jsontext.KindNumber) { // a number may go on
			whole = end
		}
	}
	for depth := dec.StackDepth(); depth > 0; depth-- {
		kind, _ := dec.StackIndex(depth)
		closers = append(closers, byte(kind)+2) // ] and } stand two behind [ and {
	}
	return whole, closers
}

// compact is a JSON text without the white space outside of strings.
func compact(b []byte) []byte {
	var out bytes.Buffer
	_ = json.Compact(&out, b) // it is JSON; an Encoder of jsontext takes three times the memory
	return out.Bytes()
}
