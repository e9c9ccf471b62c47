package tool

import (
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// RenderError writes an error as the model sees it: a JSON object with exactly
// the five keys, in the order code, field, constraint, received, hint. When
// there are further errors a sixth key, more, holds them in the same shape.
// Text stays readable: < > & are not escaped.
func RenderError(first Error, more []Error) string {
	b := appendError(make([]byte, 0, 256*(1+len(more))), first)
	if len(more) == 0 {
		return string(append(b, '}'))
	}
	b = append(b, `,"more":[`...)
	for i, e := range more {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendError(b, e), '}')
	}
	return string(append(b, "]}"...))
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

// appendError writes the object without its closing brace.
func appendError(b []byte, e Error) []byte {
	b = AppendQuoted(append(b, `{"code":`...), string(e.Code))
	b = AppendQuoted(append(b, `,"field":`...), e.Field)
	b = AppendQuoted(append(b, `,"constraint":`...), e.Constraint)
	b = AppendQuoted(append(b, `,"received":`...), e.Received)
	return AppendQuoted(append(b, `,"hint":`...), e.Hint)
}

// AppendQuoted appends text as a JSON string with the shortest escapes. Invalid UTF-8
// becomes U+FFFD.
func AppendQuoted[text []byte | string](dst []byte, s text) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // the error is of the invalid UTF-8, which is mended
	return dst
}
