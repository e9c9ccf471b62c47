package schema

import (
	"maps"
	"slices"
	"strconv"
)

// typeName is the JSON type of v.
func typeName(v any) string {
	switch v.(type) {
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
	default:
		return "number"
	}
}

// clone copies objects and arrays; scalars are immutable.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name, child := range out {
			out[name] = clone(child)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, child := range out {
			out[i] = clone(child)
		}
		return out
	default:
		return v
	}
}

// replace sets the value at l, which exists and is not the root.
func replace(root any, l location, to any) bool {
	parent, _ := l.parent().at(root)
	switch parent := parent.(type) {
	case map[string]any:
		parent[l.last()] = to
	case []any:
		i, err := strconv.Atoi(l.last())
		if err != nil || i < 0 || i >= len(parent) {
			return false
		}
		parent[i] = to
	default:
		return false
	}
	return true
}

func isObject(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

func isArray(v any) bool {
	_, ok := v.([]any)
	return ok
}

func isBool(v any) bool {
	_, ok := v.(bool)
	return ok
}

func isString(v any) bool {
	_, ok := v.(string)
	return ok
}

// typeOrder is the order in which types are tried.
var typeOrder = []string{"object", "array", "string", "integer", "number", "boolean", "null"}

func sortedNames[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
