package repairs

import (
	"encoding/json"
	"strconv"
	"strings"
)

// path is a parsed field: names and indexes.
type path []step

type step struct {
	name    string
	index   int
	isIndex bool
}

// parsePath reads a.b[2]["x.y"].c. Empty is the arguments as a whole.
func parsePath(field string) (path, bool) {
	var out path
	for rest := field; rest != ""; {
		switch {
		case strings.HasPrefix(rest, `["`):
			dec := json.NewDecoder(strings.NewReader(rest[1:]))
			var name string
			if dec.Decode(&name) != nil {
				return nil, false
			}
			end := 1 + int(dec.InputOffset())
			if end >= len(rest) || rest[end] != ']' {
				return nil, false
			}
			out, rest = append(out, step{name: name}), rest[end+1:]
		case rest[0] == '[':
			digits, after, ok := strings.Cut(rest[1:], "]")
			i, err := strconv.Atoi(digits)
			if !ok || err != nil {
				return nil, false
			}
			out, rest = append(out, step{index: i, isIndex: true}), after
		default:
			rest = strings.TrimPrefix(rest, ".")
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, false
			}
			out, rest = append(out, step{name: rest[:end]}), rest[end:]
		}
	}
	return out, true
}

func (p path) get(v any) (any, bool) {
	for _, s := range p {
		switch parent := v.(type) {
		case map[string]any:
			next, ok := parent[s.name]
			if !ok || s.isIndex {
				return nil, false
			}
			v = next
		case []any:
			if !s.isIndex || s.index >= len(parent) {
				return nil, false
			}
			v = parent[s.index]
		default:
			return nil, false
		}
	}
	return v, true
}

// set returns root with the value at p replaced, objects made on the way where
// they are missing.
func (p path) set(root, v any) any {
	if len(p) == 0 {
		return v
	}
	if p[0].isIndex {
		arr, ok := root.([]any)
		if !ok || p[0].index >= len(arr) {
			return root
		}
		arr[p[0].index] = p[1:].set(arr[p[0].index], v)
		return arr
	}
	obj, ok := root.(map[string]any)
	if !ok {
		obj = map[string]any{}
	}
	obj[p[0].name] = p[1:].set(obj[p[0].name], v)
	return obj
}

func decode(s string, v *any) bool {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	return dec.Decode(v) == nil && !dec.More()
}

// text is a string as it is, and anything else as JSON.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return encode(v)
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return "integer"
		}
	}
	return "number"
}
