package schema_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
)

// repeated is a JSON list or the inside of an object: one for each number.
func repeated(n int, one string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(one, "#", fmt.Sprintf("%06d", i)))
	}
	return b.String()
}

func judged(t *testing.T, schemaText, args string, opts schema.Options) (notes int, fields []string, constraints []string) {
	t.Helper()
	s, err := schema.Compile("t", []byte(schemaText), opts)
	if err != nil {
		t.Fatal(err)
	}
	parsed, violation := schema.ParseArgs("t", args)
	if violation != nil {
		t.Fatal(violation)
	}
	_, said, violations, err := s.CheckWithin(context.Background(), parsed, len(args))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		fields, constraints = append(fields, v.Field), append(constraints, v.Constraint)
	}
	return len(said), fields, constraints
}

// What is wrong with arguments in many places is told in time that grows with their
// size. With the square of it, as it once was, each of these takes minutes (118 KB of
// bad names took more than one).
func TestManyFaultsCostLittleEach(t *testing.T) {
	const many = 60_000
	list := func(items string) string { return `{"type":"object","properties":{"l":{"items":` + items + `}}}` }
	for name, c := range map[string]struct {
		schema, args string
		opts         schema.Options
		first        string // the field of the first violation; empty when there is none
		notes        int
	}{
		"bad names": {
			schema: `{"type":"object","propertyNames":{"maxLength":2}}`, args: `{` + repeated(many, `"n#":1`) + `}`, first: "n000000",
		},
		"bad names apart": {
			schema: list(`{"propertyNames":{"maxLength":2}}`), args: `{"l":[` + repeated(many/2, `{"n#":1}`) + `]}`, first: "l[0].n000000",
		},
		"the same bad name": {
			schema: list(`{"propertyNames":{"maxLength":2}}`), args: `{"l":[` + repeated(many/2, `{"long":1}`) + `]}`, first: "l[0].long",
		},
		"nulls": {
			schema: `{"type":"object","additionalProperties":{"type":"string"}}`, args: `{` + repeated(many, `"n#":null`) + `}`, notes: 101,
		},
		"spellings": {
			schema: list(`{"type":"number"}`), args: `{"l":[` + repeated(many, `"1"`) + `]}`, opts: schema.Options{Coerce: true}, notes: 101,
		},
		"unknown names": {
			schema: `{"type":"object","properties":{` + repeated(100, `"property_#":{}`) + `},"additionalProperties":false}`,
			args:   `{` + repeated(many, `"propertx_#_x":1`) + `}`, first: "propertx_000000_x",
		},
		"a missing name among unknown ones": {
			schema: `{"type":"object","required":[` + repeated(100, `"property_#"`) + `]}`,
			args:   `{` + repeated(many, `"propertx_#_x":1`) + `}`, first: "property_000000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			notes, fields, _ := judged(t, c.schema, c.args, c.opts)
			first := ""
			if len(fields) > 0 {
				first = fields[0]
			}
			if first != c.first || notes != c.notes || len(fields) > 10 {
				t.Errorf("%d notes, violations of %q", notes, fields)
			}
		})
	}
}

// The same arguments are told the same, however many findings there are.
func TestManyFaultsAreToldInOrder(t *testing.T) {
	args := `{"l":[` + repeated(5000, `{"a":1,"b":1,"c":1}`) + `]}`
	text := `{"type":"object","properties":{"l":{"items":{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"additionalProperties":false}}}}`
	_, want, _ := judged(t, text, args, schema.Options{})
	for range 3 {
		if _, got, _ := judged(t, text, args, schema.Options{}); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q, then %q", want, got)
		}
	}
}

// A few hundred kilobytes of arguments and a schema of some size are millions of
// comparisons, and an error for each: 30 KB of numbers took 2 s, 200 KB a gigabyte.
func TestArgumentsThatAreMuchWorkAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ items, item string }{
		"numbers in a list of numbers": {`{"enum":[` + repeated(200, `1#`) + `]}`, `1000199`},
		"many alternatives":            {`{"anyOf":[` + repeated(50, `{"type":"object","properties":{"k":{"const":"k#"}},"required":["k"]}`) + `]}`, `1`},
		"many required names":          {`{"required":[` + repeated(100, `"n#"`) + `]}`, `{}`},
		"names that depend on others":  {`{"dependentRequired":{"a":[` + repeated(100, `"n#"`) + `]}}`, `{"a":1}`},
		"a long constant":              {`{"const":[` + repeated(100, `1#`) + `]}`, `[]`},
		"time zones":                   {`{"format":"iana-tz"}`, `"X/Y"`},
	} {
		t.Run(name, func(t *testing.T) {
			text := `{"type":"object","properties":{"l":{"items":` + c.items + `}}}`
			_, _, constraints := judged(t, text, `{"l":[`+repeated(40_000, c.item)+`]}`, schema.Options{})
			if len(constraints) != 1 || !strings.Contains(constraints[0], "than can be checked") {
				t.Errorf("%q", constraints)
			}
			if _, _, constraints = judged(t, text, `{"l":[`+repeated(20, c.item)+`]}`, schema.Options{}); len(constraints) > 0 && strings.Contains(constraints[0], "than can be checked") {
				t.Errorf("a few: %q", constraints)
			}
		})
	}
	unique := `{"properties":{"l":{"uniqueItems":true,"items":{"$ref":"#/properties/l"}}}}`
	for length, refused := range map[int]bool{10: false, 500_000: true} { // written anew for each array
		_, _, constraints := judged(t, unique, `{"l":`+strings.Repeat("[0,", 90)+`"`+strings.Repeat("x", length)+`"`+strings.Repeat("]", 90)+`}`, schema.Options{})
		if refused != (len(constraints) == 1 && strings.Contains(constraints[0], "than can be checked")) {
			t.Errorf("unique items in unique items, of %d letters: %q", length, constraints)
		}
	}
	rows := `{"l":[` + repeated(15_000, `{"id":#1,"name":"n","tags":["a"],"at":null}`) + `]}`
	rows = strings.ReplaceAll(rows, `"id":0`, `"id":10`)
	text := `{"type":"object","properties":{"l":{"items":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"name":{"anyOf":[{"type":"string"},{"type":"null"}]},
		"tags":{"items":{"enum":["a","b"]}},"at":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}}}`
	if _, _, constraints := judged(t, text, rows, schema.Options{}); constraints != nil {
		t.Errorf("fifteen thousand rows: %q", constraints)
	}
}

// Whoever offers a tool writes its schema and its result. Twenty levels of nesting
// took a minute, and thirty would have taken a day.
func TestAResultThatIsMuchWorkIsPassed(t *testing.T) {
	o, err := schema.CompileOutput("t", []byte(`{"properties":{"a":{"$ref":"#/$defs/n"}},
		"$defs":{"n":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/n"}},{"type":"array","items":{"$ref":"#/$defs/n"}},{"type":"string"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if complaint := o.ValidateJSON([]byte(`{"a":` + strings.Repeat("[", 60) + "1" + strings.Repeat("]", 60) + `}`)); complaint != "" {
		t.Error(complaint)
	}
	if complaint := o.ValidateJSON([]byte(`{"a":[1]}`)); complaint == "" {
		t.Error("a small result is not checked")
	}
	o, err = schema.CompileOutput("t", []byte(`{"items":{"anyOf":[`+repeated(90, `{"const":"k#"}`)+`]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if complaint := o.ValidateJSON([]byte(`[` + repeated(90_000, "1") + `]`)); complaint != "" {
		t.Error(complaint)
	}
	if complaint := o.ValidateJSON([]byte(`["k000001",1]`)); complaint == "" {
		t.Error("a small result is not checked")
	}
}
