package schema

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/sidecall/sidecall/internal/pattern"
	"github.com/sidecall/sidecall/internal/tool"
)

// Output checks structured results of one tool. It is immutable and safe for
// concurrent use.
type Output struct {
	document

	counted sync.Pool // of *Output, the same with meters
}

// CompileOutput reads the output schema of a tool, as Compile does. Formats are
// not asserted: the tool has run, and its result is not to be lost over the
// spelling of a date. The error is a *OutputError. outputSchema must not be changed
// afterwards.
func CompileOutput(name string, outputSchema []byte) (*Output, error) {
	doc, fail := readSchema(name, outputSchema)
	if fail != nil {
		return nil, &OutputError{*fail}
	}
	o := newOutput(name, outputSchema, nil)
	if err := o.read(doc); err != nil {
		return nil, err
	}
	return o, nil
}

// newOutput is an Output that is not compiled yet; with a meter, its patterns are
// counted.
func newOutput(name string, source []byte, meter *pattern.Meter) *Output {
	o := &Output{document: document{name: name, source: source, meter: meter}}
	o.onceBy(o.compile)
	return o
}

func (o *Output) compile() (checker, error) {
	doc, fail := readSchema(o.name, o.source)
	if fail != nil {
		return checker{}, &OutputError{*fail}
	}
	c, fail := compile(o.name, doc, nil, false, o.meter)
	if fail != nil {
		return checker{}, &OutputError{*fail}
	}
	return c, nil
}

// Validate says in one short sentence what is wrong with a decoded result;
// empty when it fits. v is made as for Canonical. The sentence names the place
// and the rule, never the value.
//
// What takes too long to be checked is let pass, be it that it is large or that it
// and the schema were made for that: the tool has run.
func (o *Output) Validate(v any) string {
	size := sizeOf(v)
	c, err := o.compiled()
	if err != nil || c.work(c.root, v, size) > maxWork {
		return ""
	}
	if c.cheap(size) {
		return o.validate(v)
	}
	counted, ok := o.counted.Get().(*Output)
	if !ok {
		counted = newOutput(o.name, o.source, &pattern.Meter{})
	}
	defer o.counted.Put(counted)
	counted.meter.Reset(context.Background(), maxSteps)
	if complaint := counted.validate(v); counted.meter.Err() == nil {
		return complaint
	}
	return ""
}

func (o *Output) validate(v any) string {
	c, err := o.compiled()
	if err != nil {
		return "" // as where it is too much work
	}
	var verdict *jsonschema.ValidationError
	if !errors.As(c.root.Validate(v), &verdict) {
		return ""
	}
	findings := (&collector{looks: c.look(context.Background()), ix: o.index(), args: v, chosen: choices{}}).findings(verdict, nil)
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
