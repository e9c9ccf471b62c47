package schema

import (
	"encoding/json"
	"reflect"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxWork bounds what one check may take, patterns apart: about a second, or 200 MB
// where nothing fits, as the library remembers an error for each pair of a schema and
// a value. A hundred thousand values have room, each of three types.
const maxWork = 500_000

// littleWork need not be counted.
const littleWork = maxWork / 8

// work is what the library does when it checks a value, counted without doing it. One
// is a look at a value by a schema; a number in an enum is as much, a name in required
// too (it may become an error), in each container, its members, and where these have to
// be unique, every 16 bytes of them; a time zone is twenty, as it is looked for in files.
//
// The weight of a schema, multiplied by the size of a text, says whether anything has
// to be counted at all: for most calls it has not.
type work struct {
	pairs map[visit]int64
	ways  map[*jsonschema.Schema]ways
}

type visit struct {
	schema *jsonschema.Schema
	value  uintptr
}

// ways are the schemas that a schema applies, by what they are applied to. Those of
// its properties are looked up by name.
type ways struct {
	itself, members, items []*jsonschema.Schema
	first                  []*jsonschema.Schema // the items that have schemas of their own
	scalar                 int64                // the work on a value that holds no others
}

// allWays are those of a schema and of all that it leads to.
func allWays(root *jsonschema.Schema) map[*jsonschema.Schema]ways {
	all := make(map[*jsonschema.Schema]ways)
	scalars := unfolding{ownWork, inPlaceSchemas, 1, maxWork + 1, make(map[*jsonschema.Schema]int64)}
	eachSchema(root, func(s *jsonschema.Schema) {
		w := waysOf(s)
		w.scalar = scalars.of(s)
		all[s] = w
	})
	return all
}

func waysOf(s *jsonschema.Schema) ways {
	var w ways
	for _, e := range edges(s) {
		switch e.slot {
		case inPlace:
			w.itself = append(w.itself, e.to)
		case anyProperty, memberName:
			w.members = append(w.members, e.to)
		case anyItem:
			w.items = append(w.items, e.to)
		case prefixItem:
			w.first = append(w.first, e.to) // in their order
		case property:
		}
	}
	return w
}

// work is what checking v against s takes, where it is v's text that has so many
// bytes: at most just beyond maxWork. Where it is little it is not counted.
func (c checker) work(s *jsonschema.Schema, v any, size int) int64 {
	if int64(size) <= littleWork/c.burden { // a value has a byte at the least
		return int64(size) * c.burden
	}
	return work{make(map[visit]int64), c.ways()}.of(s, v)
}

// of is the work of checking v against s, at most just beyond maxWork.
func (w work) of(s *jsonschema.Schema, v any) int64 {
	key := visit{schema: s}
	var members int
	switch v := v.(type) {
	case map[string]any:
		key.value, members = reflect.ValueOf(v).Pointer(), len(v)
	case []any:
		key.value, members = reflect.ValueOf(v).Pointer(), len(v)
	default:
		return w.ways[s].scalar
	}
	if known, ok := w.pairs[key]; ok {
		return known
	}
	w.pairs[key] = 1 // a cycle in place: the library stops there too
	ways := w.ways[s]
	total := ownWork(s) + int64(members)
	for _, to := range ways.itself {
		if total += w.of(to, v); total > maxWork {
			break
		}
	}
	switch v := v.(type) {
	case map[string]any:
		total = w.object(total, s, ways, v)
	case []any:
		if len(s.Extensions) > 0 {
			total += int64(sizeOf(v) / 16)
		}
		total = w.array(total, ways, v)
	}
	total = min(total, maxWork+1)
	w.pairs[key] = total
	return total
}

func (w work) object(total int64, s *jsonschema.Schema, ways ways, v map[string]any) int64 {
	for name, child := range v {
		if total > maxWork {
			break
		}
		if to := s.Properties[name]; to != nil {
			total += w.of(to, child)
		}
		for _, to := range ways.members {
			total += w.of(to, child)
		}
	}
	return total
}

func (w work) array(total int64, ways ways, v []any) int64 {
	for i, child := range v {
		if total > maxWork {
			break
		}
		if i < len(ways.first) {
			total += w.of(ways.first[i], child)
		}
		for _, to := range ways.items {
			total += w.of(to, child)
		}
	}
	return total
}

// burden is the most work that a value may be, wherever it stands, at least 1: what all
// schemas are together, each as often as it is applied. One that is applied within itself
// is as much as any may be, so that it is counted for each value.
func burden(root *jsonschema.Schema) int64 {
	atLeastOne := func(s *jsonschema.Schema) int64 { return ownWork(s) + 1 }
	return unfolding{atLeastOne, targets, maxWork, maxWork, map[*jsonschema.Schema]int64{}}.of(root)
}

// ownWork is the work of a schema without those that it applies.
func ownWork(s *jsonschema.Schema) int64 {
	total := 1 + len(s.Required) + len(s.Extensions)
	if s.Format != nil && formatOf[s.Format.Name].shape == zoneShape {
		total += 20
	}
	for _, names := range s.DependentRequired {
		total += 1 + len(names)
	}
	for _, dep := range s.Dependencies {
		if names, ok := dep.([]string); ok {
			total += 1 + len(names)
		}
	}
	if s.Const != nil {
		total += likeness(*s.Const)
	}
	if s.Enum == nil {
		return int64(total)
	}
	texts := 0
	for _, v := range s.Enum.Values {
		if _, is := v.(string); is {
			texts++ // a comparison of texts is next to nothing
			continue
		}
		total += likeness(v)
	}
	return int64(total + texts/32)
}

// likeness is the work of comparing something with v: numbers are read anew, as
// fractions, each time.
func likeness(v any) int {
	switch v := v.(type) {
	case json.Number:
		return 2
	case []any, map[string]any:
		return sizeOf(v)
	default:
		return 0
	}
}
