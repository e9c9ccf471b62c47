package tool

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// RenderError writes an error as the model sees it: a JSON object with exactly
// the five keys, in the order code, field, constraint, received, hint. When
// there are further errors a sixth key, more, holds them in the same shape.
// Text stays readable: < > & are not escaped.
func RenderError(first Error, more []Error) string {
	var b strings.Builder
	b.Grow(256 * (1 + len(more)))
	writeError(&b, first)
	if len(more) == 0 {
		b.WriteByte('}')
		return b.String()
	}
	b.WriteString(`,"more":[`)
	for i, e := range more {
		if i > 0 {
			b.WriteByte(',')
		}
		writeError(&b, e)
		b.WriteByte('}')
	}
	b.WriteString("]}")
	return b.String()
}

// ParseError reads an error that RenderError has written, at the beginning of a text;
// false for any other text.
func ParseError(text string) (Error, bool) {
	if !strings.HasPrefix(text, `{"code":`) {
		return Error{}, false
	}
	var e struct {
		Code       Code            `json:"code"`
		Field      *string         `json:"field"`
		Constraint *string         `json:"constraint"`
		Received   *string         `json:"received"`
		Hint       *string         `json:"hint"`
		More       json.RawMessage `json:"more"`
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&e) != nil || e.Field == nil || e.Constraint == nil || e.Received == nil || e.Hint == nil {
		return Error{}, false
	}
	_, known := codes[e.Code]
	return Error{Code: e.Code, Field: *e.Field, Constraint: *e.Constraint, Received: *e.Received, Hint: *e.Hint}, known
}

// writeError writes the object without its closing brace.
func writeError(b *strings.Builder, e Error) {
	b.WriteString(`{"code":`)
	writeString(b, string(e.Code))
	b.WriteString(`,"field":`)
	writeString(b, e.Field)
	b.WriteString(`,"constraint":`)
	writeString(b, e.Constraint)
	b.WriteString(`,"received":`)
	writeString(b, e.Received)
	b.WriteString(`,"hint":`)
	writeString(b, e.Hint)
}

// writeString writes a JSON string with the shortest escapes. Invalid UTF-8
// becomes U+FFFD.
func writeString(b *strings.Builder, s string) {
	b.WriteByte('"')
	start := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if escape := escaped(r, size); escape != "" {
			b.WriteString(s[start:i])
			b.WriteString(escape)
			start = i + size
		}
		i += size
	}
	b.WriteString(s[start:])
	b.WriteByte('"')
}

// escaped is how r is written inside a JSON string; empty: as it is.
func escaped(r rune, size int) string {
	const hex = "0123456789abcdef"
	switch {
	case r == '"':
		return `\"`
	case r == '\\':
		return `\\`
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < ' ':
		return `\u00` + string(hex[r>>4]) + string(hex[r&15])
	case r == utf8.RuneError && size == 1:
		return "\uFFFD"
	default:
		return ""
	}
}
