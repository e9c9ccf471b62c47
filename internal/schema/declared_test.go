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
