package config

import (
	"reflect"
	"slices"
)

// Same reports whether two values of a config mean the same, however they are written:
// references count for what they stand for.
func Same(a, b any) bool { return same(reflect.ValueOf(a), reflect.ValueOf(b)) }

func same(a, b reflect.Value) bool {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return false
	}
	if !a.IsValid() {
		return true
	}
	switch a.Interface().(type) {
	case Text, Secret:
		return a.Interface().(Revealer).Reveal() == b.Interface().(Revealer).Reveal() //nolint:forcetypeassert // both are
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if a.Type().Field(i).IsExported() && !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		// None at all and nothing may mean different things: profiles: [] offers none.
		return a.IsNil() == b.IsNil() && sameItems(a, b)
	case reflect.Array:
		return sameItems(a, b)
	case reflect.Map:
		return a.Len() == b.Len() && !slices.ContainsFunc(a.MapKeys(), func(key reflect.Value) bool {
			other := b.MapIndex(key)
			return !other.IsValid() || !same(a.MapIndex(key), other)
		})
	default:
		return a.Equal(b)
	}
}

func sameItems(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if !same(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

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
	if a.Kind() != reflect.Struct || isLeaf(a.Type()) {
		differs(at)
		return
	}
	for _, f := range shapeOf(a.Type()).fields {
		differences(a.FieldByIndex(f.index), b.FieldByIndex(f.index), append(slices.Clone(at), f.key), differs, leave)
	}
}
