package schema

import (
	"errors"

	"github.com/sidecall/sidecall/internal/tool"
)

// ParseArgs reads the arguments of a call as the model wrote them: one JSON
// object, strictly RFC 8259 in valid UTF-8, every name once per object, nothing
// behind it. Empty or blank text means {}. Numbers are json.Number, so nothing
// is rounded. Nothing is repaired in silence: whatever else it is comes back as
// one violation with line, column and what was expected there; toolName is only
// named in its hint.
func ParseArgs(toolName, raw string) (map[string]any, *tool.Error) {
	args, fault := parseObject(raw)
	if fault == nil {
		return args, nil
	}
	violation := fault.violation(toolName, raw)
	return nil, &violation
}

// ParseArgs is the same for a tool whose schema is known: where that knows of
// sensitive properties, broken text is not repeated in the violation.
func (s *Schema) ParseArgs(raw string) (map[string]any, *tool.Error) {
	args, violation := ParseArgs(s.name, raw)
	if violation != nil && s.sensitive().any() {
		violation.Received = tool.ReceivedRedacted
	}
	return args, violation
}

// ErrNoValue is of a text that is no value which arguments may have.
var ErrNoValue = errors.New("no JSON value that arguments may have: too deep, too many values, or a number out of range")

// ParseValue reads a JSON text that becomes a part of arguments, as ParseArgs reads them,
// and counts its values: members, items and scalars.
func ParseValue(text []byte) (v any, values int, err error) {
	v, values, f := countValue(text, true)
	if f != nil {
		return nil, 0, ErrNoValue // why quotes the text
	}
	return v, values, nil
}

// Field writes the way from a root to one value as errors name it; see FieldPath.
func Field(root any, at ...string) string { return location(at).field(root) }

// Shown is a value as Error.Received shows it: JSON, at most 200 characters, without
// what is never shown. Of a schema that cannot be compiled every value is that.
func (s *Schema) Shown(v any) string {
	if s.Prepare() != nil {
		return tool.ReceivedRedacted
	}
	return shown(v, s.sensitive())
}
