package config

import (
	"reflect"
	"slices"
)

// Same reports whether two values of a config mean the same, however they are written:
// references count for what they stand for.
func Same(a, b any) bool { return same(reflect.ValueOf(a), reflect.ValueOf(b)) }

func same(a, b reflect.Value) bool { return reflect.DeepEqual(dump(a, true), dump(b, true)) }

// Differences are the keys in which two configs do not mean the same, each as the
// deepest path below which something differs: a list counts as one. What is at paths
// for which leave returns true may differ.
func (c *Config) Differences(other *Config, leave func(path []string) bool) (found [][]string) {
	differences(reflect.ValueOf(c).Elem(), reflect.ValueOf(other).Elem(), nil, func(path []string) { found = append(found, path) }, leave)
	return found
}

// differences walks the keys of two values of one type as far down as both have them.
func differences(a, b reflect.Value, at []string, differs func(path []string), leave func([]string) bool) {
	if leave(at) || same(a, b) {
		return
	}
	for a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		a, b = a.Elem(), b.Elem()
	}
	if shapeOf(a.Type()) == nil || shapeOf(a.Type()).keys == nil {
		differs(at)
		return
	}
	for _, f := range shapeOf(a.Type()).fields {
		differences(a.FieldByIndex(f.index), b.FieldByIndex(f.index), append(slices.Clone(at), f.key), differs, leave)
	}
}
