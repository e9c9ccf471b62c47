package schema_test

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
)

// An argument that the schema does not name is refused, unless the schema says
// openly that there may be others.
func TestUndeclaredArguments(t *testing.T) {
	const draft7 = `"$schema":"http://json-schema.org/draft-07/schema#",`
	for text, ok := range map[string]bool{
		`{"type":"object","properties":{"a":{}}}`:                                                              false,
		`{"type":"object","properties":{}}`:                                                                    false,
		`{"type":"object","properties":{"a":{}},"additionalProperties":false}`:                                 false,
		`{"type":"object","properties":{"a":{}},"patternProperties":{"^y":{}}}`:                                false,
		`{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`:                                          false,
		`{"anyOf":[{"properties":{"a":{}}},{"properties":{"b":{},"a":{}},"required":["b"]}]}`:                  false,
		`{"$ref":"#/$defs/A","$defs":{"A":{"type":"object","properties":{"a":{}}}}}`:                           false,
		`{` + draft7 + `"$ref":"#/definitions/A","definitions":{"A":{"type":"object","properties":{"a":{}}}}}`: false,
		`{` + draft7 + `"type":"object","properties":{"a":{}}}`:                                                false,
		`{"properties":{"a":{}},"if":{"required":["a"]},"then":{"properties":{"c":{}}}}`:                       false,
		`{"properties":{"a":{"$ref":"#"}}}`:                                                                    false,

		`{"type":"object"}`:                  true,
		`{"type":"object","required":["a"]}`: true,
		`{"type":"object","properties":{"a":{}},"additionalProperties":true}`:                  true,
		`{"type":"object","properties":{"a":{}},"additionalProperties":{}}`:                    true,
		`{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}}`:    true,
		`{"type":"object","properties":{"a":{}},"unevaluatedProperties":true}`:                 true,
		`{"type":"object","properties":{"a":{}},"patternProperties":{"^x":{}}}`:                true,
		`{"type":"object","properties":{"a":{}},"propertyNames":{"maxLength":9}}`:              true,
		`{"properties":{"a":{}},"allOf":[{"additionalProperties":true}]}`:                      true,
		`{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"a":{}},"additionalProperties":{}}}}`: true,
		`{"properties":{"a":{}},"anyOf":[{"properties":{"x_1":{}}},{"required":["a"]}]}`:       true,
	} {
		s, err := schema.Compile("t", []byte(text), schema.Options{Closed: true})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		check := func(s *schema.Schema, args string, want bool) {
			t.Helper()
			parsed, bad := s.ParseArgs(args)
			if bad != nil {
				t.Fatal(bad)
			}
			_, _, violations := s.Check(parsed)
			if (len(violations) == 0) != want {
				t.Errorf("%s takes %s: %v", text, args, violations)
			}
			if !want && (violations[0].Field != "x_1" || !strings.HasPrefix(violations[0].Constraint, "additionalProperties: [")) {
				t.Errorf("%s: %+v", text, violations)
			}
		}
		if strings.Contains(text, `"properties":{}`) {
			check(s, `{"x_1":1}`, false)
			continue
		}
		check(s, `{"a":{},"x_1":1}`, ok)
		check(s, `{"a":{}}`, true)
		open, err := schema.Compile("t", []byte(text), schema.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "false") {
			check(open, `{"a":{},"x_1":1}`, true)
		}
	}
}

// What a misspelt option was meant to be is said, as of a schema that is closed.
func TestAMisspeltOptionIsNamed(t *testing.T) {
	s, err := schema.Compile("find", []byte(`{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query"]}`), schema.Options{Closed: true})
	if err != nil {
		t.Fatal(err)
	}
	args, _ := s.ParseArgs(`{"query":"x","limt":5}`)
	_, _, violations := s.Check(args)
	if len(violations) != 1 || violations[0].Field != "limt" || violations[0].Constraint != `additionalProperties: ["limit","query"]` ||
		!strings.Contains(violations[0].Hint, `Did you mean "limit"?`) {
		t.Errorf("%+v", violations)
	}
}

// Only the arguments are closed, and not what a schema says of their values by a reference
// to its root; nor does what an old draft ignores beside a reference begin to count.
func TestClosingChangesNothingElse(t *testing.T) {
	const tree = `{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#"}}},"required":["name"]}`
	const draft7 = `{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/A","required":["ignored"],"properties":{"a":{"type":"string"}},
		"definitions":{"A":{"type":"object","properties":{"a":{},"sub":{"$ref":"#"}},"patternProperties":{"^x-":{"type":"string"}}}}}`
	for _, c := range []struct{ text, args, field string }{
		{tree, `{"name":"a","children":[{"name":"b","note":1,"children":[{"name":"c","note":2}]}]}`, ""},
		{tree, `{"name":"a","note":1}`, "note"},
		{tree, `{"name":"a","children":[{"note":1}]}`, "children[0].name"},
		{tree, `{"name":"a","children":[{"name":1,"note":1}]}`, "children[0].name"},
		{draft7, `{"a":5}`, ""},
		{draft7, `{"a":5,"sub":{"b":1},"x-y":""}`, ""},
		{draft7, `{"a":5,"b":1}`, "b"},
		{draft7, `{"x-y":1}`, "x-y"},
	} {
		s, draft, err := schema.CompileDraft("t", []byte(c.text), schema.Options{Closed: true})
		if err != nil {
			t.Fatal(err)
		}
		args, _ := s.ParseArgs(c.args)
		_, _, violations := s.Check(args)
		field := ""
		if len(violations) > 0 {
			field = violations[0].Field
		}
		if field != c.field || len(violations) > 1 {
			t.Errorf("%s takes %s: %+v", c.text, c.args, violations)
		}
		if !draft.Never("note") || draft.Never("name") == (c.text == tree) || draft.Never("x-y") == (c.text == draft7) {
			t.Errorf("%s: the draft says otherwise", c.text)
		}
	}
}
