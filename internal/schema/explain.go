package schema

import (
	"errors"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// maxViolations is how many violations one answer lists.
	maxViolations = 10
	// maxConsidered is how many findings are looked at closely for them. Where
	// there are more they are all of a kind.
	maxConsidered = 100
	// maxRenamed bounds the members of an object, and the names that there are,
	// among which names are looked for that were meant.
	maxRenamed = 1000
)

// explain turns the library's verdict on args into violations.
func (s *Schema) explain(given, args map[string]any, verdict *jsonschema.ValidationError, l *looks) []tool.Error {
	x, findings := s.examine(given, args, verdict, l)
	if len(findings) > maxConsidered {
		slices.SortStableFunc(findings, compareFindings)
		findings = findings[:maxConsidered]
	}
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

// renames joins an unknown property with the missing or absent one that it was
// meant to be.
func (x *explainer) renames(findings []finding) []finding {
	var out, values []finding
	taken := map[string]bool{} // places that an unknown property is to move to
	for _, f := range findings {
		if f.unknown() && x.spend(1) {
			if f.rename = x.renameOf(f, taken); f.rename != "" {
				values = append(values, x.misfits(f.at, f.at.parent().child(f.rename))...)
			}
		}
		out = append(out, f)
	}
	out = slices.DeleteFunc(out, func(f finding) bool { return f.missing() && taken[f.at.field(x.args)] })
	for i, f := range out {
		if f.missing() && x.spend(1) {
			out[i].misnamed = x.misnamedAs(f)
		}
	}
	return append(values, out...)
}

// renameOf is the allowed name, not yet used, that the unknown property f is
// most like.
func (x *explainer) renameOf(f finding, taken map[string]bool) string {
	obj, _ := x.value(f.at.parent())
	allowed := x.allowed(f)
	for _, name := range x.nearest(f.name, allowed[:min(len(allowed), maxRenamed)], 3) {
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
	c := &collector{looks: x.looks, ix: x.ix, args: x.args, chosen: x.nodes.chosen, from: from, to: target}
	var out []finding
	for _, s := range x.schemasAt(target) {
		if invalid, ok := errors.AsType[*jsonschema.ValidationError](x.judge(s, v)); ok {
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
	if !ok || len(obj) > maxRenamed {
		return nil
	}
	known := x.known(f.at.parent())
	var strangers []string
	for _, name := range sortedNames(obj) {
		if _, is := slices.BinarySearch(known, name); !is {
			strangers = append(strangers, name)
		}
	}
	for _, name := range x.nearest(f.name, strangers, 3) {
		if x.fits(x.schemasAt(f.at), obj[name]) {
			return f.at.parent().child(name)
		}
	}
	return nil
}
