package schema

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/sidecall/sidecall/internal/tool"
)

// Output checks structured results of one tool. It is immutable and safe for
// concurrent use.
type Output struct{ schema *Schema }

// CompileOutput reads the output schema of a tool, as Compile does. Formats are
// not asserted. The error is a *OutputError. outputSchema must not be changed
// afterwards.
func CompileOutput(name string, outputSchema []byte) (*Output, error) {
	doc, fail := readSchema(name, outputSchema)
	if fail != nil {
		return nil, &OutputError{*fail}
	}
	s := newSchema(name, outputSchema, Options{result: true}, nil)
	if err := s.read(doc); err != nil {
		return nil, err
	}
	return &Output{s}, nil
}

// Instructions is how many its patterns have together.
func (o *Output) Instructions() int { return o.schema.Instructions() }

// Validate says in one short sentence what is wrong with a decoded result;
// empty when it fits. v is made as for Canonical. The sentence names the place
// and the rule, never the value.
//
// What takes too long to be checked is let pass, be it that it is large or that it
// and the schema were made for that: the tool has run.
func (o *Output) Validate(v any) string {
	size := sizeOf(v)
	c, err := o.schema.compiled()
	if err != nil || c.work(c.root, v, size) > maxWork {
		return ""
	}
	complaint := ""
	if o.schema.within(context.Background(), size, maxSteps, func(s *Schema) { complaint = s.complaint(v) }) != nil {
		return ""
	}
	return complaint
}

// complaint is the first thing that is wrong with a result; empty when it fits.
func (s *Schema) complaint(v any) string {
	c, err := s.compiled()
	if err != nil {
		return "" // as where it is too much work
	}
	var verdict *jsonschema.ValidationError
	if !errors.As(c.root.Validate(v), &verdict) {
		return ""
	}
	findings := (&collector{looks: c.look(context.Background()), ix: s.index(), args: v, chosen: choices{}}).findings(verdict, nil)
	f := slices.MinFunc(findings, compareFindings)
	where := f.at.field(v)
	if where == "" {
		where = "the result"
	}
	return tool.Shorten(where+" "+f.complaint(), 200) + "."
}

// ValidateJSON is Validate for a result that is still text. Duplicate names are
// let pass, and JSON that is beyond what arguments may have: the tool has run.
func (o *Output) ValidateJSON(text []byte) string {
	v, f := parseValue(text, false)
	switch {
	case f != nil && json.Valid(text):
		return ""
	case f != nil:
		return "the result is not JSON: expected " + strings.Replace(f.expected, expectObject, "a JSON value", 1) + "."
	}
	return o.Validate(v)
}

// complaint is what is wrong, without the value.
func (f finding) complaint() string {
	switch k := f.kind.(type) {
	case *kind.Type:
		want := f.types
		if want == nil {
			want = k.Want
		}
		return "must be of type " + joinOr(want)
	case *kind.Enum:
		return "must be one of " + compact(k.Want)
	case *kind.Const:
		return "must be " + compact(k.Want)
	case *kind.Pattern:
		return "must match the pattern " + k.Want
	}
	switch {
	case f.missing():
		return "is missing"
	case f.unknown():
		return "is not a property of the result"
	}
	return "breaks a rule: " + sentence(f.kind)
}
