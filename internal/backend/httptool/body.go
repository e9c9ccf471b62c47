package httptool

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/tool"
)

// body is the JSON body of a call; nil when there is none. Values are copied
// from the arguments as they were written, not decoded and encoded again.
func (f *filler) body(at *endpoint, args json.RawMessage) ([]byte, *tool.Failure) {
	switch at.body {
	case bodyNone:
		return nil, nil
	case bodyRest:
		if len(args) == 0 {
			return []byte("{}"), nil
		}
		if len(at.used) == 0 {
			return args, nil
		}
		return without(args, at.used)
	case bodyArgument:
		values, failure := pick(args, []member{{argument: at.bodyArg}})
		if failure != nil || values[0] == nil {
			return nil, failure
		}
		return values[0], nil
	case bodyMembers:
		values, failure := pick(args, at.members)
		if failure != nil {
			return nil, failure
		}
		body := append(make([]byte, 0, len(args)+16), '{')
		for i, value := range values {
			if value != nil {
				body = appendMember(body, at.members[i].key, value)
			}
		}
		return append(body, '}'), nil
	default:
		return nil, nil
	}
}

func appendMember(object []byte, key string, value []byte) []byte {
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(append(object, key...), value...)
}

// without copies an object but for the members named.
func without(args json.RawMessage, names map[string]bool) ([]byte, *tool.Failure) {
	body := append(make([]byte, 0, len(args)), '{')
	failure := each(args, func(name string, key, value jsontext.Value) {
		if !names[name] {
			body = appendMember(body, string(key)+":", value)
		}
	})
	if failure != nil {
		return nil, failure
	}
	return append(body, '}'), nil
}

// pick returns the values of the arguments that the members name; nil for one
// that is absent.
func pick(args json.RawMessage, members []member) ([][]byte, *tool.Failure) {
	values := make([][]byte, len(members))
	failure := each(args, func(name string, _, value jsontext.Value) {
		for i, m := range members {
			if m.argument == name {
				values[i] = bytes.Clone(value)
			}
		}
	})
	return values, failure
}

// each calls f with every member of an object. key and value are valid only
// during the call.
func each(args json.RawMessage, f func(name string, key, value jsontext.Value)) *tool.Failure {
	if len(args) == 0 {
		return nil
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(args))
	start, err := decoder.ReadToken()
	if err != nil || start.Kind() != '{' {
		return notJSON(err)
	}
	for decoder.PeekKind() != '}' {
		key, err := decoder.ReadValue()
		if err != nil {
			return notJSON(err)
		}
		key = key.Clone()
		name, err := jsontext.AppendUnquote(nil, key)
		if err != nil {
			return notJSON(err)
		}
		value, err := decoder.ReadValue()
		if err != nil {
			return notJSON(err)
		}
		f(string(name), key, value)
	}
	return nil
}
