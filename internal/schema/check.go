package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/sidecall/sidecall/internal/tool"
)

// Check judges the arguments of a call.
//
// When they fit, checked is args itself, and there is nothing else to say. An
// optional property that is null where the schema wants no null is left out of
// checked (providers' strict modes send such nulls), and with Options.Coerce
// lossless spellings are taken for what they mean; then checked is a copy, and
// notes says what was done, one short clause each, without values. Otherwise
// checked is nil and violations lists what is wrong, the most useful first, at
// most ten. args is never changed.
func (s *Schema) Check(args map[string]any) (checked map[string]any, notes []string, violations []tool.Error) {
	checked, notes, violations, _ = s.CheckWithin(context.Background(), args, sizeOf(args)) // which does not end
	return checked, notes, violations
}

// check is CheckWithin with a schema that counts, where that is needed.
func (s *Schema) check(ctx context.Context, args map[string]any, size int) (checked map[string]any, notes []string, violations []tool.Error, err error) {
	c, fail := s.compiled()
	if fail != nil {
		return nil, nil, []tool.Error{internal(s.name)}, nil //nolint:nilerr // which the violation says
	}
	if c.work(c.root, args, size) > maxWork {
		return nil, nil, []tool.Error{s.tooDeep()}, nil
	}
	if c.quick != nil && c.quick(args) {
		return args, nil, nil, nil
	}
	err = c.root.Validate(args)
	if err == nil {
		return args, nil, nil, nil
	}
	var verdict *jsonschema.ValidationError
	if !errors.As(err, &verdict) {
		return nil, nil, []tool.Error{internal(s.name)}, nil
	}
	t := trial{s, c.look(ctx)}
	checked, notes, violations = t.mend(args, verdict)
	return checked, notes, violations, t.ended()
}

// trial is of the arguments of one call that do not fit as they are, with the looks at them
// that there are.
type trial struct {
	*Schema
	*looks
}

// mend leaves out and spells anew what may be, or says what is wrong.
func (t trial) mend(args map[string]any, verdict *jsonschema.ValidationError) (checked map[string]any, notes []string, violations []tool.Error) {
	if verdict, checked, notes = t.dropNulls(args, verdict); verdict == nil {
		return checked, notes, nil
	}
	if t.options.Coerce {
		var more []string
		if verdict, checked, more = t.coerce(checked, verdict); verdict == nil {
			return checked, append(notes, more...), nil
		}
	}
	return nil, nil, t.explain(args, checked, verdict)
}

func (s *Schema) tooDeep() tool.Error {
	return tool.Error{
		Code:       tool.CodeInvalidArgs,
		Constraint: "the arguments are nested deeper, or hold more, than can be checked with this schema",
		Received:   "an object with too many levels or values",
		Hint:       "Send the same with fewer levels of nesting, or in smaller parts, then call " + s.name + " again.",
	}
}

// maxNotes bounds what is said of one call; it stands in its log line.
const maxNotes = 100

// noted adds a note, unless there are enough.
func noted(notes []string, note string) []string {
	switch {
	case len(notes) < maxNotes:
		return append(notes, note)
	case len(notes) == maxNotes:
		return append(notes, "and more of the same kind")
	default:
		return notes
	}
}

// maxRounds bounds how often nulls are left out anew, because some turned out to be
// required.
const maxRounds = 8

// dropNulls leaves out the nulls that the verdict complains of, except those of
// properties that then turn out to be required.
func (t trial) dropNulls(args map[string]any, verdict *jsonschema.ValidationError) (*jsonschema.ValidationError, map[string]any, []string) {
	nulls := nullsIn(verdict, args, map[string]bool{}, nil)
	slices.SortFunc(nulls, func(a, b location) int { return slices.CompareFunc(a, b, compareTokens) })
	for round := 0; len(nulls) > 0 && round < maxRounds; round++ {
		slim := clone(args).(map[string]any)
		var notes []string
		for _, at := range nulls {
			if parent, ok := at.parent().at(slim); ok {
				delete(parent.(map[string]any), at.last())
				notes = noted(notes, "left out "+at.field(args)+", which was null")
			}
		}
		err := t.judge(t.root(), slim)
		if err == nil {
			return nil, slim, notes
		}
		after, ok := errors.AsType[*jsonschema.ValidationError](err)
		if !ok {
			break
		}
		_, findings := t.examine(slim, after)
		missing := map[string]bool{}
		for _, f := range findings {
			if f.missing() {
				missing[f.at.key()] = true
			}
		}
		kept := slices.DeleteFunc(slices.Clone(nulls), func(l location) bool { return missing[l.key()] })
		if len(kept) == len(nulls) {
			return after, slim, notes
		}
		nulls = kept
	}
	return verdict, args, nil
}

// nullsIn adds the members that are null where a type or a value is wanted to out;
// known are the keys of those in it.
func nullsIn(e *jsonschema.ValidationError, args any, known map[string]bool, out []location) []location {
	switch e.ErrorKind.(type) {
	case *kind.Type, *kind.Enum, *kind.Const:
		l := location(e.InstanceLocation)
		if len(l) == 0 {
			break
		}
		v, present := l.at(args)
		parent, _ := l.parent().at(args)
		if present && v == nil && isObject(parent) && !known[l.key()] {
			known[l.key()] = true
			out = append(out, l)
		}
	}
	for _, cause := range e.Causes {
		out = nullsIn(cause, args, known, out)
	}
	return out
}

// coerce replaces values by what they spell, where that is what the schema
// wants and nothing is lost.
func (t trial) coerce(args map[string]any, verdict *jsonschema.ValidationError) (*jsonschema.ValidationError, map[string]any, []string) {
	x, findings := t.examine(args, verdict)
	out := clone(args).(map[string]any)
	var notes []string
	for _, f := range findings {
		v, present := x.value(f.at)
		if !present || len(f.at) == 0 {
			continue
		}
		to := x.spelled(f, v)
		if len(to) == 0 || !replace(out, f.at, to[0]) {
			continue
		}
		notes = noted(notes, fmt.Sprintf("took %s, %s, for %s", f.at.field(args), articled(typeName(v)), articled(typeName(to[0]))))
	}
	if len(notes) == 0 {
		return verdict, args, nil
	}
	err := t.judge(t.root(), out)
	if after, ok := errors.AsType[*jsonschema.ValidationError](err); ok || err == nil {
		return after, out, notes
	}
	return verdict, args, nil
}

// spelled are the values that v spells, of the types that f wants.
func (x *examined) spelled(f finding, v any) []any {
	switch k := f.kind.(type) {
	case *kind.Type:
		return spellings(v, x.wantedBy(f, k))
	case *kind.Enum, *kind.Const:
		return fixedSpellings(v, f.fixedValues())
	}
	return nil
}

// spellings are the values of the wanted types of which v is the exact spelling.
func spellings(v any, want []string) []any {
	var out []any
	for _, typ := range want {
		if to, ok := lossless(v, typ); ok {
			out = append(out, to)
		}
	}
	return out
}

// fixedSpellings are those of values that v spells.
func fixedSpellings(v any, values []any) []any {
	var out []any
	for _, fixed := range values {
		if to, ok := lossless(v, typeName(fixed)); ok && compact(to) == compact(fixed) {
			out = append(out, fixed)
		}
	}
	return out
}

// lossless takes v for a value of the type, when it is exactly the spelling of
// one.
func lossless(v any, typ string) (any, bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), typ == "string"
	case string:
		switch {
		case (typ == "number" || typ == "integer") && isNumber(v):
			r := rational(json.Number(v))
			return json.Number(v), r != nil && (typ == "number" || r.IsInt())
		case typ == "boolean" && (v == "true" || v == "false"):
			return v == "true", true
		case typ == "null" && v == "null":
			return nil, true
		}
	}
	return nil, false
}

// internal is the violation for a fault of ours: the id of the call finds it in
// the log.
func internal(name string) tool.Error {
	return tool.Error{
		Code:       tool.CodeInternal,
		Constraint: "the arguments could not be checked",
		Hint:       "Do not call " + orTheTool(name) + " again with these arguments.",
	}
}
