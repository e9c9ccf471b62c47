package repairs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mutation is a call that was broken in one way.
type Mutation struct {
	// Kind is the way: missing, mistyped, misspelt, ...
	Kind string
	// Nested: below the top level of the arguments.
	Nested bool
	// Where names the place, for a report.
	Where string
	// Args are the arguments. They may still be valid: not every change breaks
	// every schema.
	Args map[string]any
}

// Mutations lists the ways to break one valid call, in a fixed order.
func Mutations(valid map[string]any) []Mutation {
	m := &mutator{valid: valid}
	m.object(nil, valid)
	m.pairs()
	return m.out
}

type mutator struct {
	valid map[string]any
	out   []Mutation
}

// object breaks an object in itself, then each of its members.
func (m *mutator) object(at place, obj map[string]any) {
	m.add("extra", at, func(o map[string]any) { o["unexpected_property"] = "surplus" })
	m.add("extra", at, func(o map[string]any) { o["x"] = json.Number("1") })
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		m.add("missing", at, func(o map[string]any) { delete(o, name) })
		for _, wrong := range misspellings(name) {
			if _, taken := obj[wrong]; taken {
				continue
			}
			m.add("misspelt", at, func(o map[string]any) {
				o[wrong] = o[name]
				delete(o, name)
			})
		}
		m.value(append(slices.Clone(at), name), obj[name])
	}
}

// value breaks one value, then what it is made of.
func (m *mutator) value(at place, v any) {
	for _, c := range wrongValues(v) {
		m.put(c.kind, at, c.value)
	}
	switch v := v.(type) {
	case map[string]any:
		m.object(at, v)
	case []any:
		for i, one := range v[:min(len(v), 3)] {
			m.value(append(slices.Clone(at), strconv.Itoa(i)), one)
		}
	}
}

// add applies change to the object at a place in a copy of the valid call.
func (m *mutator) add(kind string, at place, change func(map[string]any)) {
	args := copyOf(m.valid).(map[string]any)
	change(at.get(args).(map[string]any))
	m.out = append(m.out, Mutation{Kind: kind, Nested: len(at) > 0, Where: fmt.Sprint(at), Args: args})
}

func (m *mutator) put(kind string, at place, v any) {
	args := copyOf(m.valid)
	m.out = append(m.out, Mutation{
		Kind: kind, Nested: len(at) > 1, Where: fmt.Sprint(at),
		Args: at.set(args, copyOf(v)).(map[string]any),
	})
}

// pairs breaks a call twice: two members of the top level, each mistyped,
// missing or misspelt.
func (m *mutator) pairs() {
	names := slices.Sorted(maps.Keys(m.valid))
	for i := 0; i+1 < len(names); i++ {
		a, b := names[i], names[i+1]
		m.add("two at once", nil, func(o map[string]any) {
			delete(o, a)
			o[b] = map[string]any{"unexpected": true}
		})
		m.add("two at once", nil, func(o map[string]any) {
			wrong := misspellings(a)[0]
			o[wrong] = o[a]
			delete(o, a)
			o[b] = nil
		})
	}
}

// change is a value that takes the place of a valid one.
type change struct {
	kind  string
	value any
}

func wrongValues(v any) []change {
	out := []change{{"null", nil}}
	switch v := v.(type) {
	case string:
		out = append(out, wrongStrings(v)...)
	case json.Number:
		out = append(out,
			change{"mistyped", "many"}, change{"mistyped", map[string]any{}}, change{"mistyped", true},
			change{"string for number", v.String()}, change{"array for scalar", []any{v}},
			change{"out of range", json.Number("-1")}, change{"out of range", json.Number("0")},
			change{"out of range", json.Number("1000000000")}, change{"out of range", json.Number("-1000000000")},
			change{"fraction", json.Number("2.5")})
	case bool:
		out = append(out,
			change{"mistyped", "maybe"}, change{"mistyped", []any{}}, change{"array for scalar", []any{v}},
			change{"string for boolean", fmt.Sprint(v)}, change{"number for boolean", json.Number("1")})
	case []any:
		out = append(out, wrongArrays(v)...)
	case map[string]any:
		out = append(out,
			change{"mistyped", "an object"}, change{"mistyped", json.Number("7")}, change{"array for scalar", []any{v}},
			change{"JSON in a string", encode(v)}, change{"missing", map[string]any{}})
	}
	return out
}

func wrongStrings(s string) []change {
	out := []change{
		{"mistyped", json.Number("12345")}, {"mistyped", false}, {"mistyped", map[string]any{"value": s}},
		{"array for scalar", []any{s}}, {"array for scalar", []any{s, s}},
		{"too long", strings.Repeat(s+" and more ", 500)}, {"too short", ""},
		{"wrong value", "something else entirely"}, {"wrong value", strings.ToUpper(s)}, {"wrong value", " " + s + " "},
	}
	if wrong := misspellings(s); len(s) > 3 {
		out = append(out, change{"misspelt value", wrong[0]}, change{"misspelt value", wrong[len(wrong)-1]})
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			out = append(out,
				change{"malformed date", t.Format("02/01/2006")}, change{"malformed date", t.Format("Jan 2, 2006")},
				change{"malformed date", t.Format("2006-1-2 15:04")}, change{"malformed date", "2026-13-45"}, change{"malformed date", "tomorrow"})
		}
	}
	return out
}

func wrongArrays(arr []any) []change {
	out := []change{
		{"mistyped", "a list"}, {"mistyped", json.Number("3")}, {"mistyped", map[string]any{"items": arr}},
		{"too few items", []any{}}, {"JSON in a string", encode(arr)},
	}
	if len(arr) == 0 {
		return out
	}
	var many []any
	for range 30 {
		many = append(many, arr...)
	}
	return append(out,
		change{"scalar for array", arr[0]},
		change{"repeated items", append(slices.Clone(arr), arr[0])},
		change{"too many items", many},
		change{"null item", append(slices.Clone(arr), nil)})
}

// misspellings are slips of the keys and other conventions. There is at least
// one.
func misspellings(name string) []string {
	runes := []rune(name)
	var out []string
	add := func(s string) {
		if s != "" && s != name && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if n := len(runes); n >= 4 {
		swapped := slices.Clone(runes)
		swapped[n/2-1], swapped[n/2] = swapped[n/2], swapped[n/2-1]
		add(string(swapped))
		add(string(runes[:n-1]))                                      // last letter lost
		add(string(runes[:1]) + string(runes[0]) + string(runes[1:])) // first letter doubled
	}
	add(camel(name))
	add(strings.ToUpper(name))
	add(strings.ReplaceAll(name, "_", "-"))
	if len(out) == 0 {
		add(name + "s")
	}
	return out
}

// camel turns snake_case into camelCase, and camelCase into snake_case.
func camel(name string) string {
	if !strings.Contains(name, "_") {
		var b strings.Builder
		for i, r := range name {
			if i > 0 && r >= 'A' && r <= 'Z' {
				b.WriteByte('_')
			}
			b.WriteString(strings.ToLower(string(r)))
		}
		return b.String()
	}
	words := strings.Split(name, "_")
	for i, w := range words {
		if i > 0 && w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}
