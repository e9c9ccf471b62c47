package httptool

import (
	"encoding/json"
	"slices"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// maxTarget bounds path and query together, in bytes. Common servers read
	// 8 KiB to 16 KiB.
	maxTarget = 16 << 10
	// maxHeaderValue bounds the value that an argument gives a header, in bytes.
	maxHeaderValue = 8 << 10
)

// filler puts arguments into their places. The first violation sticks.
type filler struct {
	args      map[string]any
	violation *tool.Failure
}

// target is path and query.
func (f *filler) target(at *endpoint) string {
	b := make([]byte, 0, 256)
	b = append(b, at.origin.prefix...)
	for _, seg := range at.path.segments {
		b = append(b, '/')
		b = f.segment(b, seg)
	}
	if len(b) == 0 {
		b = append(b, '/')
	}
	mark := byte('?')
	if at.path.query != "" {
		b = append(append(b, mark), at.path.query...)
		mark = '&'
	}
	for _, q := range at.query {
		b, mark = f.parameter(b, mark, q.name, q.argument)
	}
	if at.restInQuery {
		for _, name := range f.rest(at.used) {
			if at.fixed[queryName(name)] {
				f.refuse(name, "this query parameter is fixed and cannot be sent", "Leave it out.", f.args[name])
				return ""
			}
			b, mark = f.parameter(b, mark, string(appendEscaped(nil, name)), name)
		}
	}
	if len(b) > maxTarget {
		f.refuse("", "the URL would be longer than 16384 bytes", "Send shorter or fewer values.", nil)
	}
	return string(b)
}

func (f *filler) segment(b []byte, seg segment) []byte {
	if len(seg.parts) == 1 && seg.parts[0].argument == "" {
		return append(b, seg.parts[0].literal...)
	}
	texts := make([]string, 0, 4)
	last := ""
	for _, part := range seg.parts {
		if part.argument == "" {
			continue
		}
		last = part.argument
		value, present := f.args[last]
		text, ok := scalar(value)
		switch {
		case !present || value == nil:
			f.refuse(last, "it is part of the path, so it must be there", "Add "+last+".", nil)
		case !ok:
			f.refuse(last, "it is part of the path, so it must be a string, number or boolean", "Send one plain value.", value)
		}
		texts = append(texts, text)
	}
	if f.violation != nil {
		return b
	}
	extended, err := seg.append(b, texts)
	if err != nil {
		f.refuse(last, "as part of the path, "+err.Error(), "Send the plain id or name.", f.args[last])
		return b
	}
	return extended
}

// rest are the names of the arguments that are not used elsewhere, sorted.
func (f *filler) rest(used map[string]bool) []string {
	var names []string
	for name := range f.args {
		if !used[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// parameter appends one query parameter, or one per item of a list.
func (f *filler) parameter(b []byte, mark byte, name, argument string) ([]byte, byte) {
	value, present := f.args[argument]
	if !present || value == nil {
		return b, mark
	}
	items, list := value.([]any)
	if !list {
		items = []any{value}
	}
	for _, item := range items {
		text, ok := scalar(item)
		if !ok {
			f.refuse(argument, "it is sent in the URL, so it must be a string, number or boolean, or a list of them",
				"Send plain values.", value)
			return b, mark
		}
		b = append(append(append(b, mark), name...), '=')
		b = appendEscaped(b, text)
		mark = '&'
	}
	return b, mark
}

// refuse records that an argument cannot be sent.
func (f *filler) refuse(argument, constraint, hint string, received any) {
	if f.violation != nil {
		return
	}
	message := tool.ReceivedMissing
	if received != nil {
		message = describe(received)
	} else if argument == "" {
		message = ""
	}
	f.violation = &tool.Failure{
		Code: tool.CodeInvalidArgs, Evidence: tool.NotExecuted, CallerFault: true, ErrorType: "invalid_args",
		Field: fieldPath(argument), Constraint: constraint, Message: message, Hint: hint,
	}
}

// describe shows a refused value as JSON.
func describe(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "" // decoded from JSON, so it encodes
	}
	return tool.ShortenBytes(string(text), 200)
}

// fieldPath is the path of a top-level argument, as in google.rpc.BadRequest.
func fieldPath(name string) string {
	for i := range len(name) {
		c := name[i]
		word := c == '_' || c == '-' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !word {
			return "[" + string(tool.AppendQuoted(nil, name)) + "]"
		}
	}
	return name
}

// scalar is the text of a plain value; false for lists, objects and null.
func scalar(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	default:
		return "", false
	}
}

func notJSON(err error) *tool.Failure {
	return &tool.Failure{
		Code: tool.CodeInvalidArgs, Evidence: tool.NotExecuted, CallerFault: true, ErrorType: "invalid_args",
		Constraint: "the arguments are not a JSON object", Err: err,
	}
}
