package schema

import (
	"errors"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxRenamed bounds the members of an object, and the names that there are, among which
// names are looked for that were meant.
const maxRenamed = 1000

// renamer finds the properties that were meant by a wrong name.
type renamer struct {
	*examined

	taken map[string]bool // places that an unknown property is to move to
}

// join joins an unknown property with the missing or absent one that it was
// meant to be.
func (x *renamer) join(findings []finding) []finding {
	var out, values []finding
	for _, f := range findings {
		if f.unknown() && x.spend(1) {
			if f.rename = x.renameOf(f); f.rename != "" {
				values = append(values, x.misfits(f.at, f.at.parent().child(f.rename))...)
			}
		}
		out = append(out, f)
	}
	out = slices.DeleteFunc(out, func(f finding) bool { return f.missing() && x.taken[f.at.field(x.args)] })
	for i, f := range out {
		if f.missing() && x.spend(1) {
			out[i].misnamed = x.misnamedAs(f)
		}
	}
	return append(values, out...)
}

// renameOf is the allowed name, not yet used, that the unknown property f is
// most like.
func (x *renamer) renameOf(f finding) string {
	obj, _ := x.value(f.at.parent())
	allowed := x.allowed(f)
	for _, name := range x.nearest(f.name, allowed[:min(len(allowed), maxRenamed)], 3) {
		target := f.at.parent().child(name).field(x.args)
		if _, present := (location{name}).at(obj); !present && !x.taken[target] {
			x.taken[target] = true
			return name
		}
	}
	return ""
}

// misfits lists what is wrong with the value at from once it moves to target.
func (x *renamer) misfits(from, target location) []finding {
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
func (x *renamer) misnamedAs(f finding) location {
	obj, unknown := x.unknownNames(f.at.parent(), maxRenamed)
	for _, name := range x.nearest(f.name, unknown, 3) {
		if x.fits(x.schemasAt(f.at), obj[name]) {
			return f.at.parent().child(name)
		}
	}
	return nil
}
