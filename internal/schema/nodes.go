package schema

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// nodes finds the subschemas that apply at a place of the arguments. Of a union
// these are the branches that the value fits, and those in chosen.
type nodes struct {
	chosen choices
	// fitting is what the values of the arguments have been found to fit before; nil
	// where it is not remembered. A branch may have to look at all of them.
	fitting map[choice]bool
	*looks
}

// fits reports whether the value at its place satisfies s.
func (n nodes) fits(s *jsonschema.Schema, v apparent) bool {
	if n.fitting == nil {
		return n.suits(s, v.value)
	}
	key := choice{s, v.at.key()}
	known, ok := n.fitting[key]
	if !ok {
		known = n.suits(s, v.value)
		n.fitting[key] = known
	}
	return known
}

// choices are the branches of unions that findings are about. A recursive
// schema makes another choice at every place.
type choices map[choice]bool

type choice struct {
	branch *jsonschema.Schema
	at     string
}

func (c choices) add(branch *jsonschema.Schema, at location) { c[choice{branch, at.key()}] = true }

func (c choices) has(branch *jsonschema.Schema, at location) bool {
	return len(c) > 0 && c[choice{branch, at.key()}]
}

// apparent is what is known of a value when its schemas are looked up.
type apparent struct {
	value   any
	present bool
	at      location
}

// at returns every schema that applies at l, in the order of discovery. It works
// for a missing value too; conditions on the value itself then do not count.
func (n nodes) at(root *jsonschema.Schema, args any, l location) []*jsonschema.Schema {
	current := n.expand(nil, root, apparent{args, true, nil})
	v := args
	for i, token := range l {
		parent := v
		child, present := location{token}.at(parent)
		v = child
		var next []*jsonschema.Schema
		for _, s := range current {
			for _, to := range steps(s, token, parent) {
				next = n.expand(next, to, apparent{v, present, l[:i+1]})
			}
		}
		current = next
	}
	return current
}

// expand adds s and all that it applies in place to list, for as long as there are
// looks left.
func (n nodes) expand(list []*jsonschema.Schema, s *jsonschema.Schema, v apparent) []*jsonschema.Schema {
	if s == nil || !n.spend(int64(1+len(list)/16)) || slices.Contains(list, s) {
		return list
	}
	list = append(list, s)
	for _, to := range n.applied(s, v) {
		list = n.expand(list, to, v)
	}
	return list
}

// applied lists what s applies to v in place.
func (n nodes) applied(s *jsonschema.Schema, v apparent) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	out = appendSchema(out, s.Ref)
	out = appendSchema(out, s.RecursiveRef)
	if s.DynamicRef != nil {
		out = appendSchema(out, s.DynamicRef.Ref)
	}
	out = append(out, s.AllOf...)
	for _, union := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		for _, b := range union {
			if n.chosen.has(b, v.at) || len(union) == 1 || v.present && n.fits(b, v) {
				out = append(out, b)
			}
		}
	}
	if !v.present {
		return out
	}
	if s.If != nil {
		if n.fits(s.If, v) {
			out = appendSchema(out, s.Then)
		} else {
			out = appendSchema(out, s.Else)
		}
	}
	if obj, ok := v.value.(map[string]any); ok {
		before := len(out)
		for name, to := range s.DependentSchemas {
			if _, has := obj[name]; has {
				out = append(out, to)
			}
		}
		for name, dep := range s.Dependencies {
			if _, has := obj[name]; has {
				out = appendSchema(out, asSchema(dep))
			}
		}
		inOrder(out[before:])
	}
	return out
}

// openUnion returns the branches of the first union in list of which none has
// been chosen.
func openUnion(list []*jsonschema.Schema) []*jsonschema.Schema {
	for _, s := range list {
		for _, union := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
			chosen := slices.ContainsFunc(union, func(b *jsonschema.Schema) bool { return slices.Contains(list, b) })
			if len(union) > 0 && !chosen {
				return union
			}
		}
	}
	return nil
}
