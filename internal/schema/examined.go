package schema

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// examined are the arguments of one call as they were judged, nulls dropped and spellings
// coerced, with the schemas that apply at their places.
type examined struct {
	*looks

	root  *jsonschema.Schema
	args  any
	nodes nodes
	ix    *index
}

func (t trial) examine(args map[string]any, verdict *jsonschema.ValidationError) (*examined, []finding) {
	c := &collector{looks: t.looks, ix: t.index(), args: args, chosen: choices{}}
	findings := c.findings(verdict, nil)
	return &examined{looks: t.looks, root: t.root(), args: args, ix: c.ix, nodes: nodes{chosen: c.chosen, fitting: map[choice]bool{}, looks: t.looks}}, findings
}

// schemasAt lists what applies at l.
func (x *examined) schemasAt(l location) []*jsonschema.Schema { return x.nodes.at(x.root, x.args, l) }

func (x *examined) value(l location) (any, bool) { return l.at(x.args) }

// known lists the properties that any schema at l describes.
func (x *examined) known(l location) []string { return propertiesOf(x.schemasAt(l)) }

func propertiesOf(list []*jsonschema.Schema) []string {
	names := map[string]bool{}
	for _, s := range list {
		for name, p := range s.Properties {
			if p.Bool == nil || *p.Bool {
				names[name] = true
			}
		}
	}
	return sortedNames(names)
}

// unknownNames are the object at l, and those of its properties that no schema knows; nil
// where it has more than most of them.
func (x *examined) unknownNames(l location, most int) (map[string]any, []string) {
	v, _ := x.value(l)
	obj, ok := v.(map[string]any)
	if !ok || len(obj) > most {
		return nil, nil
	}
	known := x.known(l)
	return obj, slices.DeleteFunc(sortedNames(obj), func(name string) bool {
		_, is := slices.BinarySearch(known, name)
		return is
	})
}

// allowed lists the names that may stand where the unknown property f stands.
func (x *examined) allowed(f finding) []string {
	if _, closed := f.kind.(*kind.AdditionalProperties); !closed || f.schema == nil {
		return slices.DeleteFunc(x.known(f.at.parent()), func(n string) bool { return n == f.name })
	}
	return propertiesOf([]*jsonschema.Schema{f.schema})
}

// schemasFor lists what applies to the value of f, where it is or where it will
// be once its property has its right name.
func (x *examined) schemasFor(f finding) []*jsonschema.Schema {
	at := f.at
	if f.moved != nil {
		at = f.moved
	}
	if _, ok := f.kind.(*kind.OneOf); ok && f.schema != nil {
		return []*jsonschema.Schema{f.schema} // its branches that fit now are too many
	}
	list := x.schemasAt(at)
	if f.schema != nil && !slices.Contains(list, f.schema) {
		list = append(list, f.schema)
	}
	return list
}

// keyword is the value of a keyword as the schema's author wrote it.
func (x *examined) keyword(s *jsonschema.Schema, name string, fallback any) any {
	if s != nil {
		if v, ok := x.ix.source(s)[name]; ok && !isBool(v) {
			return v
		}
	}
	return fallback
}

// wantedBy lists the types of a type finding, in the author's order.
func (x *examined) wantedBy(f finding, k *kind.Type) []string {
	if f.types != nil {
		return f.types
	}
	if arr, ok := x.keyword(f.schema, "type", nil).([]any); ok && len(arr) == len(k.Want) {
		return stringsOf(arr)
	}
	return k.Want
}

// requires reports whether the property of f may not be left out.
func (x *examined) requires(f finding) bool {
	if len(f.at) == 0 {
		return true
	}
	return slices.ContainsFunc(x.schemasAt(f.at.parent()), func(s *jsonschema.Schema) bool {
		return slices.Contains(s.Required, f.at.last())
	})
}
