package repairs

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// place leads to a value: names of members, and indexes.
type place []string

// get is the value at p, which there is.
func (p place) get(v any) any {
	for _, token := range p {
		switch parent := v.(type) {
		case map[string]any:
			v = parent[token]
		case []any:
			i, _ := strconv.Atoi(token)
			v = parent[i]
		}
	}
	return v
}

// set is root with another value at p.
func (p place) set(root, v any) any {
	if len(p) == 0 {
		return v
	}
	last := len(p) - 1
	switch parent := p[:last].get(root).(type) {
	case map[string]any:
		parent[p[last]] = v
	case []any:
		i, _ := strconv.Atoi(p[last])
		parent[i] = v
	}
	return root
}

// copyOf copies objects and arrays.
func copyOf(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, child := range v {
			out[name] = copyOf(child)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = copyOf(child)
		}
		return out
	default:
		return v
	}
}

func encode(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil { // not reached: v came from JSON
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}
