package schema

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// branch is one alternative of a union, and what speaks against it.
type branch struct {
	schema   *jsonschema.Schema
	findings []finding
	chosen   choices
	// typeMiss: the value is not even of the branch's type.
	typeMiss bool
	// tagMiss are findings about a property that wants a fixed value, the mark
	// by which unions are told apart; tagHits counts those that fit.
	tagMiss []finding
	tagHits int
}

// nearestBranch reports a union by the branch that came nearest to fit: first
// by type, then by the property that names the kind, then by the number of
// complaints. Complaints that all branches share are put together.
func (c *collector) nearestBranch(e *jsonschema.ValidationError, union finding, base location) []finding {
	branches := c.branches(e, union, base)
	if len(branches) == 0 {
		return []finding{union}
	}
	typed := slices.DeleteFunc(slices.Clone(branches), func(b branch) bool { return b.typeMiss })
	if len(typed) == 0 {
		return []finding{wantedTypes(union, branches)}
	}
	if fixed, ok := wantedValues(union, typed); ok {
		return []finding{fixed}
	}
	best := slices.MinFunc(typed, compareBranches)
	if tag, ok := sharedTag(typed); ok {
		best = c.nearestTag(typed, tag, best)
		best.findings = replaceFinding(best.findings, tag)
	}
	best.findings = missingTag(best, typed, union.at)
	c.choose(best.schema, union.at)
	maps.Copy(c.chosen, best.chosen)
	return best.findings
}

func (c *collector) branches(e *jsonschema.ValidationError, union finding, base location) []branch {
	if union.schema == nil {
		return nil
	}
	alternatives := union.schema.AnyOf
	if _, ok := e.ErrorKind.(*kind.OneOf); ok {
		alternatives = union.schema.OneOf
	}
	value, _ := union.at.at(c.args)
	var out []branch
	for i, cause := range e.Causes {
		if i >= len(alternatives) {
			break
		}
		own := &collector{looks: c.looks, ix: c.ix, args: c.args, chosen: choices{}, from: c.from, to: c.to}
		b := branch{schema: alternatives[i], findings: own.findings(cause, base), chosen: own.chosen}
		for _, f := range b.findings {
			if _, ok := f.kind.(*kind.Type); ok && f.at.equal(union.at) {
				b.typeMiss = true
			}
			if f.isTag(union.at, c.args) {
				b.tagMiss = append(b.tagMiss, f)
			}
		}
		b.tagHits = c.tagHits(alternatives[i], value)
		out = append(out, b)
	}
	return out
}

// isTag reports whether f is about a fixed value of a direct member of the
// object at at, and that member is there.
func (f finding) isTag(at location, args any) bool {
	if len(f.at) != len(at)+1 || !f.at.under(at) {
		return false
	}
	if _, present := f.at.at(args); !present {
		return false
	}
	switch k := f.kind.(type) {
	case *kind.Const:
		return true
	case *kind.Enum:
		return f.values != nil || len(k.Want) > 0
	}
	return false
}

// tagHits counts the members of v that have the fixed value the branch wants.
func (c *collector) tagHits(s *jsonschema.Schema, v any) int {
	obj, ok := v.(map[string]any)
	if !ok {
		return 0
	}
	hits := 0
	properties := described(s).Properties
	for name, got := range obj {
		if want := properties[name]; want != nil && (want.Const != nil || want.Enum != nil) && c.suits(want, got) {
			hits++
		}
	}
	return hits
}

// described follows references to a schema with properties. A chain of them may
// be endless.
func described(s *jsonschema.Schema) *jsonschema.Schema {
	for range 8 {
		if s.Ref == nil || len(s.Properties) > 0 {
			break
		}
		s = s.Ref
	}
	return s
}

func compareBranches(a, b branch) int {
	if d := len(a.tagMiss) - len(b.tagMiss); d != 0 {
		return d
	}
	if d := b.tagHits - a.tagHits; d != 0 {
		return d
	}
	return len(a.findings) - len(b.findings)
}

// wantedTypes joins branches that all want another type.
func wantedTypes(union finding, branches []branch) finding {
	for _, b := range branches {
		for _, f := range b.findings {
			k, ok := f.kind.(*kind.Type)
			if !ok || !f.at.equal(union.at) {
				continue
			}
			for _, t := range append(slices.Clone(f.types), k.Want...) {
				if !slices.Contains(union.types, t) {
					union.types = append(union.types, t)
				}
			}
		}
	}
	union.kind = &kind.Type{Want: union.types}
	return union
}

// wantedValues joins branches that each want a fixed value.
func wantedValues(union finding, branches []branch) (finding, bool) {
	for _, b := range branches {
		if len(b.findings) != 1 || !b.findings[0].at.equal(union.at) {
			return union, false
		}
		values := b.findings[0].fixedValues()
		if values == nil {
			return union, false
		}
		union.values = append(union.values, values...)
	}
	union.kind = &kind.Enum{Want: union.values}
	return union, true
}

// fixedValues are the values that a failed const or enum wants.
func (f finding) fixedValues() []any {
	if f.values != nil {
		return f.values
	}
	switch k := f.kind.(type) {
	case *kind.Const:
		return []any{k.Want}
	case *kind.Enum:
		return k.Want
	}
	return nil
}

// sharedTag is the one member whose value fits no branch, with the values of
// all of them.
func sharedTag(branches []branch) (finding, bool) {
	var tag finding
	for i, b := range branches {
		if len(b.tagMiss) != 1 {
			return tag, false
		}
		f := b.tagMiss[0]
		if i == 0 {
			tag = f
			tag.values = slices.Clone(f.fixedValues())
			continue
		}
		if !tag.at.equal(f.at) {
			return tag, false
		}
		tag.values = append(tag.values, f.fixedValues()...)
	}
	tag.kind = &kind.Enum{Want: tag.values}
	return tag, len(branches) > 1
}

// nearestTag prefers the branch whose tag is spelt most like the one received.
func (l *looks) nearestTag(branches []branch, tag finding, fallback branch) branch {
	got, _ := fallback.tagMiss[0].kind.(*kind.Const)
	if got == nil {
		return fallback
	}
	received, ok := got.Got.(string)
	if !ok {
		return fallback
	}
	near := l.nearest(received, stringsOf(tag.values), 1)
	if len(near) == 0 {
		return fallback
	}
	for _, b := range branches {
		if slices.Contains(stringsOf(b.tagMiss[0].fixedValues()), near[0]) {
			return b
		}
	}
	return fallback
}

// missingTag adds, to a missing property that every branch misses and wants a
// fixed value for, the values of all branches, those of the best one first.
func missingTag(best branch, branches []branch, at location) []finding {
	out := slices.Clone(best.findings)
	for i, f := range out {
		if _, missing := f.kind.(*kind.Required); !missing || len(f.at) != len(at)+1 {
			continue
		}
		values := best.fixed(f.name)
		for _, b := range branches {
			if b.schema != best.schema {
				values = append(values, b.fixed(f.name)...)
			}
		}
		if len(values) > 1 && len(best.fixed(f.name)) == 1 {
			out[i].values = values
		}
	}
	return out
}

// fixed are the values that the branch allows for a member, when it lists them.
func (b branch) fixed(name string) []any {
	switch p := described(b.schema).Properties[name]; {
	case p == nil:
		return nil
	case p.Const != nil:
		return []any{*p.Const}
	case p.Enum != nil:
		return p.Enum.Values
	}
	return nil
}

func stringsOf(values []any) []string {
	var out []string
	for _, v := range values {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// replaceFinding puts tag in the place of the finding at the same location.
func replaceFinding(list []finding, tag finding) []finding {
	out := slices.Clone(list)
	for i, f := range out {
		if f.at.equal(tag.at) && f.fixedValues() != nil {
			tag.schema = f.schema
			out[i] = tag
		}
	}
	return out
}
