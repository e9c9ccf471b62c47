package schema

import (
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/sidecall/sidecall/tool"
)

// Output checks structured results of one tool. It is immutable and safe for
// concurrent use.
type Output struct {
	root *jsonschema.Schema
	ix   *index
}

// CompileOutput reads the output schema of a tool, as Compile does. Formats are
// not asserted: the tool has run, and its result is not to be lost over the
// spelling of a date. The error is a *OutputError.
func CompileOutput(name string, outputSchema []byte) (*Output, error) {
	doc, fail := readSchema(name, outputSchema)
	if fail != nil {
		return nil, &OutputError{*fail}
	}
	root, fail := compile(name, doc, false)
	if fail != nil {
		return nil, &OutputError{*fail}
	}
	return &Output{root: root, ix: newIndex(root, outputSchema)}, nil
}

// Validate says in one short sentence what is wrong with a decoded result;
// empty when it fits. v is made as for Canonical. The sentence names the place
// and the rule, never the value.
func (o *Output) Validate(v any) string {
	var verdict *jsonschema.ValidationError
	if !errors.As(o.root.Validate(v), &verdict) {
		return ""
	}
	c := &collector{ix: o.ix, args: v, chosen: choices{}}
	findings := c.findings(verdict, nil)
	f := findings[0]
	for _, other := range findings[1:] {
		if compareFindings(other, f) < 0 {
			f = other
		}
	}
	where := f.at.field(v)
	if where == "" {
		where = "the result"
	}
	return tool.Shorten(where+" "+f.complaint(), 200) + "."
}

// ValidateJSON is Validate for a result that is still text. Duplicate names are
// let pass.
func (o *Output) ValidateJSON(text []byte) string {
	v, f := parseValue(text, false)
	if f != nil {
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
