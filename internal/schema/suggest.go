package schema

import (
	"context"
	"errors"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// MaxSuggested bounds the arguments that are worth correcting, in bytes of JSON.
	MaxSuggested = 16 << 10
	// suggestSteps is what the patterns of a schema may cost on the way to a
	// suggestion.
	suggestSteps = 4 * freeSteps
	// maxMended is how often corrected arguments are looked at again: a property has
	// to have its right name before its value can be judged.
	maxMended = 4
)

// Suggest returns the whole of the arguments as JSON, corrected and ready to be
// sent, where what is wrong with them determines the correction; else "". Their
// text had size bytes; nil are arguments that could not be read. Arguments that fit
// are returned as they are, without nulls that the schema does not want.
//
// Nothing in it is guessed. Each value is one that was sent, in another spelling
// or under the name that it was meant to have: no value is added, none is changed
// into another, and none but a null is left out, since a dry_run that the tool
// does not know was meant. What can be meant in two ways is left alone. So is
// what holds a secret.
//
// What is suggested fits the schema. It costs one more check of the arguments or a
// few, so ask only for a call that was refused.
func (s *Schema) Suggest(ctx context.Context, args map[string]any, size int) string {
	if args == nil || s.Prepare() != nil || max(size, sizeOf(args)) > MaxSuggested || s.sensitive().within(args) {
		return ""
	}
	var mended map[string]any
	if s.within(ctx, size, suggestSteps, func(s *Schema) { mended = s.mended(ctx, args) }) != nil || mended == nil {
		return ""
	}
	w := writer{limit: MaxSuggested}
	if w.value(mended); len(w.b) > MaxSuggested {
		return ""
	}
	return string(w.b)
}

// mended is args with all that is certain corrected; nil when that is not enough.
func (s *Schema) mended(ctx context.Context, args map[string]any) map[string]any {
	c, err := s.compiled()
	if err != nil {
		return nil
	}
	t := trial{s, c.look(ctx)}
	for range maxMended {
		err := t.judge(c.root, args)
		if err == nil {
			return args
		}
		verdict, ok := errors.AsType[*jsonschema.ValidationError](err)
		if !ok {
			return nil
		}
		if verdict, args, _ = t.dropNulls(args, verdict); verdict == nil {
			return args
		}
		x, findings := t.examine(args, verdict)
		edits := x.edits(findings)
		if len(edits) == 0 {
			return nil
		}
		args = clone(args).(map[string]any)
		for _, e := range edits {
			e.in(args)
		}
	}
	return nil
}

// edit is one correction: of the value at a place, of its name, or of both that
// it is there at all.
type edit struct {
	at   location
	to   any
	name string // the right one; empty where the name is right
	drop bool
}

func (e edit) in(args map[string]any) {
	if e.name == "" && !e.drop {
		replace(args, e.at, e.to)
		return
	}
	parent, _ := e.at.parent().at(args)
	obj, ok := parent.(map[string]any)
	if !ok {
		return
	}
	if !e.drop {
		obj[e.name] = obj[e.at.last()]
	}
	delete(obj, e.at.last())
}

// edits corrects each finding, values before names, which the places of values
// are made of; nil when one of them leaves a choice.
func (x *examined) edits(findings []finding) []edit {
	var values, names []edit
	for _, f := range findings {
		switch {
		case !x.spend(1):
			return nil
		case f.unknown():
			e, ok := x.rename(f, findings)
			if !ok {
				return nil
			}
			names = append(names, e)
		case f.missing():
		default:
			to, ok := x.meantValue(f)
			if !ok || len(f.at) == 0 {
				return nil
			}
			values = append(values, edit{at: f.at, to: to})
		}
	}
	for _, f := range findings {
		if !f.missing() || slices.ContainsFunc(names, f.filledBy) {
			continue
		}
		unknown := x.unknownFor(f)
		if unknown == nil {
			return nil
		}
		names = append(names, edit{at: unknown, name: f.name})
	}
	if clash(names) {
		return nil
	}
	return append(values, names...)
}

// filledBy reports whether a new name fills the place where f misses a property.
func (f finding) filledBy(e edit) bool {
	return e.name == f.name && !e.drop && e.at.parent().equal(f.at.parent())
}

// clash reports whether one property is to have two names, or two properties one.
func clash(names []edit) bool {
	seen := map[string]bool{}
	for _, e := range names {
		from, to := "from "+e.at.key(), "to "+e.at.parent().child(e.name).key()
		if seen[from] || !e.drop && seen[to] {
			return true
		}
		seen[from], seen[to] = true, true
	}
	return false
}
