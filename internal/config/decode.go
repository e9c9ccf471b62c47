package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// document decodes the root of the file.
func (d *decoder) document(root *yaml.Node, c *Config) {
	v := reflect.ValueOf(c).Elem()
	d.setDefaults(v)
	d.value(v, &field{}, spot{node: root})
}

// value decodes one value. f holds the rules of the field it is in, or below.
func (d *decoder) value(v reflect.Value, f *field, s spot) {
	if sc := scalars[v.Type()]; sc != nil {
		d.scalar(v, sc, f, s)
		return
	}
	if v.CanAddr() {
		if sp, ok := reflect.TypeAssert[special](v.Addr()); ok {
			sp.decode(d, f, s)
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(d.fresh(v.Type().Elem()).Addr())
		d.value(v.Elem(), f, s)
	case reflect.Struct:
		d.form(v, s)
	case reflect.Slice:
		d.list(v, f, s)
	case reflect.Map:
		d.mapping(v, f, s)
	default:
		panic(fmt.Sprintf("config: no way to decode a %s", v.Type()))
	}
}

// scalar decodes a value that is one YAML scalar.
func (d *decoder) scalar(v reflect.Value, sc *scalar, f *field, s spot) {
	value, ok := sc.parse(s.node)
	if !ok {
		d.found.add(s.at(), "expected %s, found %s%s", f.expected(sc), describe(s.node), advice(sc, f, s.node))
		return
	}
	if size, ok := number(value); ok {
		if bad := f.outOfRange(sc, size); bad != "" {
			d.found.add(s.at(), "%s, found %s", bad, describe(s.node))
			return
		}
	}
	if sc.text {
		if bad := f.wrongString(s.node.Value); bad != "" {
			d.found.add(s.at(), "%s", bad)
			return
		}
	}
	v.Set(reflect.ValueOf(value).Convert(v.Type()))
}

// form decodes a struct by the field for what stands there, else by its keys.
func (d *decoder) form(v reflect.Value, s spot) {
	shape := shapeOf(v.Type())
	form := shape.form(formOf(s.node))
	switch {
	case form != nil:
		d.value(v.FieldByIndex(form.index), form, s)
	case shape.keys != nil || shape.forms == nil:
		d.structure(v, s)
	case !isNull(s.node) || shape.form("text") != nil: // nothing is as good as an empty list or mapping
		d.found.add(s.at(), "expected %s, found %s", shape.formWords(), describeKind(s.node))
	}
}

// structure decodes a mapping with known keys.
func (d *decoder) structure(v reflect.Value, s spot) {
	shape := shapeOf(v.Type())
	if !d.isMapping(s, shape.keys) {
		return
	}
	seen := map[string]spot{}
	d.pairs(s, func(key string, at spot) {
		f := shape.byKey[key]
		if f == nil {
			d.found.find(RuleUnknownKey, at.atKey(), "unknown key%s", instead(key, shape.keys))
			return
		}
		seen[key] = at
		d.value(v.FieldByIndex(f.index), f, at)
	})
	for _, f := range shape.fields {
		if _, there := seen[f.key]; f.required && !there {
			d.found.add(s.at(), "%s is missing: %s", quote(f.key), f.doc)
		}
	}
	d.together(shape, s, seen)
	if c, ok := reflect.TypeAssert[checked](v); ok {
		c.check(within{found: d.found, top: s})
	}
}

// together reports keys that exclude or need each other.
func (d *decoder) together(shape *shape, s spot, seen map[string]spot) {
	absent := func(key string) bool { _, there := seen[key]; return !there }
	for _, group := range shape.groups {
		have := slices.DeleteFunc(slices.Clone(group), absent)
		if len(have) != 1 {
			d.found.add(s.at(), "expected exactly one of %s, found %s", strings.Join(group, ", "), cmp.Or(strings.Join(have, " and "), "none"))
			return // what goes with which is not known
		}
	}
	for _, f := range shape.fields {
		if at, there := seen[f.key]; there && f.with != nil && !slices.ContainsFunc(f.with, func(key string) bool { return !absent(key) }) {
			d.found.find(RuleConflict, at.at(), "it acts only beside %s: add that here, or remove it", strings.Join(f.with, " or "))
		}
	}
}

// list decodes a sequence.
func (d *decoder) list(v reflect.Value, f *field, s spot) {
	var items []*yaml.Node
	switch {
	case s.node.Kind == yaml.SequenceNode:
		items = s.node.Content
	case !isNull(s.node):
		d.found.add(s.at(), "expected a list, found %s%s", describe(s.node), listAdvice(s.node))
		return
	}
	if len(items) < f.items {
		d.found.add(s.at(), "expected at least %d item in the list", f.items)
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	rules := f.item()
	for i, item := range items {
		out.Index(i).Set(d.fresh(out.Type().Elem()))
		d.value(out.Index(i), rules, spot{path: s.path.item(i), node: item})
	}
	v.Set(out)
}

// seeder is a map some of whose keys start from something else than zero.
type seeder interface{ seed(key string) any }

// mapping decodes a mapping with free keys.
func (d *decoder) mapping(v reflect.Value, f *field, s spot) {
	if !d.isMapping(s, nil) {
		return
	}
	out, rules := reflect.MakeMap(v.Type()), f.item()
	d.pairs(s, func(key string, at spot) {
		if bad := f.wrongKey(key); bad != "" {
			d.found.add(at.atKey(), "%s as a key, found %s", bad, quote(key))
		}
		item := d.fresh(v.Type().Elem())
		if seeds, ok := reflect.TypeAssert[seeder](v); ok {
			if seed := seeds.seed(key); seed != nil {
				item.Set(reflect.ValueOf(seed))
			}
		}
		d.value(item, rules, at)
		if k, ok := mapKey(v.Type().Key(), key); ok {
			out.SetMapIndex(k, item)
		}
	})
	v.Set(out)
}

// mapKey converts a key to the key type of its map: a string or an int.
func mapKey(t reflect.Type, key string) (reflect.Value, bool) {
	if t.Kind() != reflect.Int {
		return reflect.ValueOf(key).Convert(t), true
	}
	i, err := strconv.Atoi(key)
	return reflect.ValueOf(i), err == nil
}

// fresh is a new value with its defaults.
func (d *decoder) fresh(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	if shapeOf(t) != nil {
		d.setDefaults(v)
	}
	return v
}

// setDefaults gives every field of a struct its default, and the structs in it
// theirs. Pointers stay nil: a block that is not there is not there.
func (d *decoder) setDefaults(v reflect.Value) {
	for _, f := range shapeOf(v.Type()).fields {
		field := v.FieldByIndex(f.index)
		switch {
		case f.def != "":
			d.setDefault(field, f)
		case shapeOf(field.Type()) != nil:
			d.setDefaults(field)
		}
	}
}

// setDefault decodes the default as if it had been written in the file.
func (d *decoder) setDefault(v reflect.Value, f *field) {
	n := textNode(f.def)
	if v.Kind() == reflect.Slice {
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}}
	}
	found := &collector{most: 1}
	(&decoder{dir: d.dir, found: found}).value(v, f, spot{node: n})
	if bad := found.problems(); bad != nil {
		panic("config: default of " + f.key + ": " + bad.Error())
	}
}
