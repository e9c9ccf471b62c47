package schema

import "github.com/sidecall/sidecall/tool"

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
	if violation != nil && (s.Prepare() != nil || s.sensitive().any()) {
		violation.Received = tool.ReceivedRedacted
	}
	return args, violation
}
