package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

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
	// forms are the fields with an as tag.
	forms []*field
}

// field is what the tags of one field say.
type field struct {
	index    []int
	typ      reflect.Type
	key, doc string
	as       string
	def      string
	required bool
	items    int
	with     []string
	enum     []string
	min, max string
	format   *format // of the strings in it
	keys     *format // of the keys of a map
}

// shapes of the struct types that were asked for.
var shapes sync.Map

// shapeOf reads the tags of a struct type, once; it is nil for any other type. A tag
// that makes no sense panics, in every test.
func shapeOf(t reflect.Type) *shape {
	if s, known := shapes.Load(t); known {
		return s.(*shape) //nolint:forcetypeassert // nothing else is stored
	}
	if t.Kind() != reflect.Struct || isLeaf(t) {
		return nil
	}
	s := &shape{byKey: map[string]*field{}}
	groups := map[string]int{}
	for _, sf := range reflect.VisibleFields(t) {
		key, as := sf.Tag.Get("yaml"), sf.Tag.Get("as")
		if strings.HasSuffix(key, ",inline") || key == "" && as == "" {
			continue
		}
		f := newField(sf, key)
		if as != "" {
			s.forms = append(s.forms, f)
		}
		if key == "" {
			continue
		}
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
	}
	shapes.Store(t, s)
	return s
}

// formOf is the as tag of a field in which a node can stand.
func formOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "map"
	case n.Kind == yaml.SequenceNode:
		return "list"
	case isString(n):
		return "text"
	default:
		return ""
	}
}

// form is the field for a whole value of a form; nil when it cannot have that.
func (s *shape) form(as string) *field {
	for _, f := range s.forms {
		if f.as == as {
			return f
		}
	}
	return nil
}

// formWords say what may stand where a value has several forms.
func (s *shape) formWords() string {
	var words []string
	for _, f := range s.forms {
		words = append(words, f.doc)
	}
	return strings.Join(words, ", or ")
}

func newField(sf reflect.StructField, key string) *field {
	get := func(name string) string { return sf.Tag.Get(name) }
	f := &field{
		index: sf.Index, typ: sf.Type, key: key, as: get("as"), doc: get("doc"), def: get("default"),
		required: get("required") == "true",
		min:      get("min"), max: get("max"),
		format: mustFormat(get("format")), keys: mustFormat(get("keys")),
	}
	f.enum = enums[elem(sf.Type)]
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
	if text == "" {
		return 0, false
	}
	value, ok := sc.parse(textNode(text))
	if !ok {
		panic(fmt.Sprintf("config: bound %q is not %s", text, sc.expect))
	}
	return number(value)
}

// parses reports whether the node is a value of the type.
func (sc *scalar) parses(n *yaml.Node) bool {
	_, ok := sc.parse(n)
	return ok
}
