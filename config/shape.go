package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// shape is what the tags of a struct type say.
type shape struct {
	fields []*field
	byKey  map[string]*field
	keys   []string
	// groups lists, per name of a one tag, the keys of which exactly one is
	// wanted.
	groups [][]string
}

// field is what the tags of one field say.
type field struct {
	index    []int
	typ      reflect.Type
	key, doc string
	def      string
	required bool
	items    int
	with     []string
	enum     []string
	min, max string
	format   *format // of the strings in it
	keys     *format // of the keys of a map
}

// shapes of every struct type that Config holds, built once.
var shapes = func() map[reflect.Type]*shape {
	all := map[reflect.Type]*shape{}
	addShape(all, reflect.TypeFor[Config]())
	addShape(all, reflect.TypeFor[listenerKeys]()) // which reads itself
	return all
}()

// addShape reads the tags of a struct and of every struct below it. A tag that
// makes no sense panics: at start, in every test.
func addShape(all map[reflect.Type]*shape, t reflect.Type) {
	t = elem(t)
	if t.Kind() != reflect.Struct || all[t] != nil || isLeaf(t) {
		return
	}
	s := &shape{byKey: map[string]*field{}}
	all[t] = s
	groups := map[string]int{}
	for _, sf := range reflect.VisibleFields(t) {
		tag, ok := sf.Tag.Lookup("yaml")
		if !ok || strings.HasSuffix(tag, ",inline") {
			continue
		}
		f := newField(sf, tag)
		s.fields = append(s.fields, f)
		s.byKey[f.key] = f
		s.keys = append(s.keys, f.key)
		if name, ok := sf.Tag.Lookup("one"); ok {
			if _, seen := groups[name]; !seen {
				groups[name] = len(s.groups)
				s.groups = append(s.groups, nil)
			}
			s.groups[groups[name]] = append(s.groups[groups[name]], f.key)
		}
		addShape(all, f.typ)
	}
}

func newField(sf reflect.StructField, key string) *field {
	get := func(name string) string { return sf.Tag.Get(name) }
	f := &field{
		index: sf.Index, typ: sf.Type, key: key, doc: get("doc"), def: get("default"),
		required: get("required") == "true",
		min:      get("min"), max: get("max"),
		format: mustFormat(get("format")), keys: mustFormat(get("keys")),
	}
	if s := get("enum"); s != "" {
		f.enum = strings.Split(s, "|")
	}
	if s := get("with"); s != "" {
		f.with = strings.Split(s, "|")
	}
	if s := get("items"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			panic(fmt.Sprintf("config: field %s: items %q", sf.Name, s))
		}
		f.items = n
	}
	if f.doc == "" {
		panic(fmt.Sprintf("config: field %s has no doc", sf.Name))
	}
	return f
}

// elem is the type of the single values below pointers, lists and maps.
func elem(t reflect.Type) reflect.Type {
	for !isLeaf(t) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			t = t.Elem()
		default:
			return t
		}
	}
	return t
}

// special is a type that reads a node in its own way.
type special interface {
	decode(d *decoder, f *field, s spot)
	schema(f *field) map[string]any
}

var specialType = reflect.TypeFor[special]()

// isLeaf reports whether values of t are not looked into by reflection.
func isLeaf(t reflect.Type) bool {
	return scalars[t] != nil || reflect.PointerTo(t).Implements(specialType)
}

// textNode makes the node that a default or a bound stands for, as if it had
// been written in the file.
func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text, Tag: "!!str"}
	if text == "true" || text == "false" {
		n.Tag = "!!bool"
	} else if _, err := strconv.Atoi(text); err == nil {
		n.Tag = "!!int"
	} else if _, err := strconv.ParseFloat(text, 64); err == nil {
		n.Tag = "!!float"
	}
	return n
}

// bound parses a min or max tag of a scalar.
func (sc *scalar) bound(text string) (float64, bool) {
	if text == "" || sc.number == nil {
		return 0, false
	}
	value, ok := sc.parse(textNode(text))
	if !ok {
		panic(fmt.Sprintf("config: bound %q is not %s", text, sc.expect))
	}
	return sc.number(value), true
}

// parses reports whether the node is a value of the type.
func (sc *scalar) parses(n *yaml.Node) bool {
	_, ok := sc.parse(n)
	return ok
}

// stringSchema describes text under the rules of its field.
func (f *field) stringSchema() map[string]any {
	out := map[string]any{"type": "string"}
	switch {
	case f.enum != nil:
		out["enum"] = f.enum
	case f.format != nil:
		out["pattern"] = f.format.pattern
	case f.required:
		out["minLength"] = 1
	}
	return out
}
