package schema

import (
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/sidecall/sidecall/tool"
)

// maxViolations is how many violations one answer lists.
const maxViolations = 10

// explainer words the findings of one call.
type explainer struct {
	s *Schema
	// given are the arguments as received; args those that were judged, nulls
	// dropped and spellings coerced. Places are the same in both.
	given, args any
	nodes       nodes
	ix          *index
	secrets     *sensitiveness
}

// explain turns the library's verdict on args into violations.
func (s *Schema) explain(given, args map[string]any, verdict *jsonschema.ValidationError) []tool.Error {
	x, findings := s.examine(given, args, verdict)
	findings = x.renames(findings)
	findings = shortestArrays(findings)
	slices.SortStableFunc(findings, compareFindings)
	var out []tool.Error
	type key struct{ field, constraint string }
	seen := map[key]bool{}
	for _, f := range findings {
		v := x.violation(f)
		if k := (key{v.Field, v.Constraint}); !seen[k] {
			seen[k] = true
			out = append(out, v)
		}
		if len(out) == maxViolations {
			break
		}
	}
	return out
}

func (s *Schema) examine(given, args map[string]any, verdict *jsonschema.ValidationError) (*explainer, []finding) {
	c := &collector{ix: s.index(), args: args, chosen: choices{}}
	findings := c.findings(verdict, nil)
	return &explainer{
		s: s, given: given, args: args, ix: c.ix,
		nodes:   nodes{chosen: c.chosen},
		secrets: s.sensitive(),
	}, findings
}

// schemasAt lists what applies at l.
func (x *explainer) schemasAt(l location) []*jsonschema.Schema {
	return x.nodes.at(x.s.root(), x.args, l)
}

func (x *explainer) value(l location) (any, bool) { return l.at(x.args) }

// renames joins an unknown property with the missing or absent one that it was
// meant to be.
func (x *explainer) renames(findings []finding) []finding {
	var out, values []finding
	taken := map[string]bool{} // places that an unknown property is to move to
	for _, f := range findings {
		if f.unknown() {
			if f.rename = x.renameOf(f, taken); f.rename != "" {
				values = append(values, x.misfits(f.at, f.at.parent().child(f.rename))...)
			}
		}
		out = append(out, f)
	}
	out = slices.DeleteFunc(out, func(f finding) bool { return f.missing() && taken[f.at.field(x.args)] })
	for i, f := range out {
		if f.missing() {
			out[i].misnamed = x.misnamedAs(f)
		}
	}
	return append(values, out...)
}

// renameOf is the allowed name, not yet used, that the unknown property f is
// most like.
func (x *explainer) renameOf(f finding, taken map[string]bool) string {
	obj, _ := x.value(f.at.parent())
	for _, name := range Nearest(f.name, x.allowed(f), 3) {
		target := f.at.parent().child(name).field(x.args)
		if _, present := (location{name}).at(obj); !present && !taken[target] {
			taken[target] = true
			return name
		}
	}
	return ""
}

// misfits lists what is wrong with the value at from once it moves to target.
func (x *explainer) misfits(from, target location) []finding {
	v, _ := x.value(from)
	c := &collector{ix: x.ix, args: x.args, chosen: x.nodes.chosen, from: from, to: target}
	var out []finding
	for _, s := range x.schemasAt(target) {
		if invalid, ok := errors.AsType[*jsonschema.ValidationError](s.Validate(v)); ok {
			out = append(out, c.findings(invalid, from)...)
		}
	}
	for i, f := range out {
		out[i].moved = append(slices.Clone(target), f.at[len(from):]...)
	}
	return out
}

// misnamedAs is the place of a property that no schema knows, though it is
// allowed, and that is spelt like the missing one.
func (x *explainer) misnamedAs(f finding) location {
	v, _ := x.value(f.at.parent())
	obj, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	known := x.known(f.at.parent())
	var strangers []string
	for _, name := range sortedNames(obj) {
		if !slices.Contains(known, name) {
			strangers = append(strangers, name)
		}
	}
	for _, name := range Nearest(f.name, strangers, 3) {
		if fits(x.schemasAt(f.at), obj[name]) {
			return f.at.parent().child(name)
		}
	}
	return nil
}

// known lists the properties that any schema at l describes.
func (x *explainer) known(l location) []string {
	names := map[string]bool{}
	for _, s := range x.schemasAt(l) {
		for name, p := range s.Properties {
			if p.Bool == nil || *p.Bool {
				names[name] = true
			}
		}
	}
	return sortedNames(names)
}

// allowed lists the names that may stand where the unknown property f stands.
func (x *explainer) allowed(f finding) []string {
	if _, closed := f.kind.(*kind.AdditionalProperties); !closed || f.schema == nil {
		return slices.DeleteFunc(x.known(f.at.parent()), func(n string) bool { return n == f.name })
	}
	names := map[string]bool{}
	for name, p := range f.schema.Properties {
		if p.Bool == nil || *p.Bool {
			names[name] = true
		}
	}
	return sortedNames(names)
}

// unknown reports whether f is about a property that may not be there.
func (f finding) unknown() bool {
	switch f.kind.(type) {
	case *kind.AdditionalProperties:
		return true
	case *kind.FalseSchema:
		return f.name != ""
	}
	return false
}

func (f finding) missing() bool {
	switch f.kind.(type) {
	case *kind.Required, *kind.DependentRequired, *kind.Dependency:
		return true
	}
	return false
}

// rank orders findings by how much repairing one helps with the rest.
func (f finding) rank() int {
	if f.moved != nil { // the value first, then its name
		return 0
	}
	switch f.kind.(type) {
	case *kind.AdditionalProperties, *kind.FalseSchema:
		if f.rename != "" {
			return 1
		}
		return 4
	case *kind.Required, *kind.DependentRequired, *kind.Dependency:
		return 2
	case *kind.OneOf, *kind.Not, *kind.MinProperties, *kind.MaxProperties:
		return 5
	default:
		return 3
	}
}

func compareFindings(a, b finding) int {
	if d := a.rank() - b.rank(); d != 0 {
		return d
	}
	if d := slices.CompareFunc(a.at, b.at, compareTokens); d != 0 {
		return d
	}
	return strings.Compare(keywordOf(a), keywordOf(b))
}

// compareTokens orders indexes by number and names by letter.
func compareTokens(a, b string) int {
	if len(a) != len(b) && isIndex(a) && isIndex(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func isIndex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// keywordOf is the name of the keyword that failed; empty when there is none.
func keywordOf(f finding) string {
	if path := f.kind.KeywordPath(); len(path) > 0 {
		return path[0]
	}
	return ""
}

// shortestArrays keeps, of the items that an array must not have at all, the
// first: the array ends there.
func shortestArrays(findings []finding) []finding {
	var out []finding
	for _, f := range findings {
		_, forbidden := f.kind.(*kind.FalseSchema)
		if !forbidden || f.name != "" || len(f.at) == 0 {
			out = append(out, f)
			continue
		}
		shorter := slices.IndexFunc(out, func(o finding) bool {
			_, same := o.kind.(*kind.FalseSchema)
			return same && o.name == "" && len(o.at) == len(f.at) && o.at.parent().equal(f.at.parent())
		})
		switch {
		case shorter < 0:
			out = append(out, f)
		case compareTokens(f.at.last(), out[shorter].at.last()) < 0:
			out[shorter] = f
		}
	}
	return out
}
