package schema

import (
	"encoding/json"
	"testing"
)

// What is quick is true of the cases of all that is known, and of nothing that only looks like it.
func TestWhatIsQuicklySaidIsTrue(t *testing.T) {
	values := []string{
		`{}`, `{"a":1}`, `{"a":1.0}`, `{"a":1.5}`, `{"a":-3}`, `{"a":9223372036854775807}`, `{"a":123456789012345678901}`, `{"a":1e2}`,
		`{"a":""}`, `{"a":"é"}`, `{"a":"red"}`, `{"a":"2024-01-01"}`, `{"a":"a@b.c"}`, `{"a":null}`, `{"a":true}`, `{"a":[]}`, `{"a":[1,2]}`,
		`{"a":["x",1]}`, `{"a":{}}`, `{"a":{"b":1}}`, `{"a":{"b":{"b":{}}}}`, `{"a":1,"b":2}`, `{"b":"x"}`, `{"a":[[1],["x"]]}`,
	}
	const inside = `{"type":"object","properties":{"a":`
	for schema, isQuick := range map[string]bool{
		`{"type":"object"}`:                  true,
		`{"type":"object","required":["a"]}`: true,
		`{"type":"object","properties":{"a":{}},"additionalProperties":false}`:              true,
		`{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}}`: true,
		`{"type":"object","minProperties":1,"maxProperties":1}`:                             true,
		inside + `true}}`:                                                              true,
		inside + `false}}`:                                                             true,
		inside + `{"type":"integer"}}}`:                                                true,
		inside + `{"type":"number"}}}`:                                                 true,
		inside + `{"type":["string","null"]}}}`:                                        true,
		inside + `{"type":"integer","minimum":0,"maximum":100}}}`:                      true,
		inside + `{"exclusiveMinimum":1,"exclusiveMaximum":100}}}`:                     true,
		inside + `{"minimum":0.5}}}`:                                                   false,
		inside + `{"multipleOf":2}}}`:                                                  false,
		inside + `{"enum":["red",1,null,true,[1,2]]}}}`:                                true,
		inside + `{"const":"red"}}}`:                                                   true,
		inside + `{"const":1}}}`:                                                       true,
		inside + `{"type":"string","minLength":1,"maxLength":3}}}`:                     true,
		inside + `{"format":"date"}}}`:                                                 true,
		inside + `{"format":"email","type":"string"}}}`:                                true,
		inside + `{"pattern":"^r"}}}`:                                                  true,
		inside + `{"items":{"type":"integer"},"minItems":1,"maxItems":2}}}`:            true,
		inside + `{"prefixItems":[{"type":"string"}]}}}`:                               false,
		inside + `{"uniqueItems":true}}}`:                                              false,
		inside + `{"contains":{"type":"string"}}}}`:                                    false,
		inside + `{"anyOf":[{"type":"integer"},{"type":"null"}]}}}`:                    true,
		inside + `{"allOf":[{"minimum":1},{"maximum":2}]}}}`:                           true,
		inside + `{"oneOf":[{"type":"integer"},{"minimum":1}]}}}`:                      false,
		inside + `{"not":{"type":"integer"}}}}`:                                        false,
		inside + `{"if":{"type":"integer"},"then":{"minimum":2}}}}`:                    false,
		inside + `{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer","minimum":1}}}`: true,
		inside + `{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"b":{"$ref":"#/$defs/n"}}}}}`:                                         false,
		`{"type":"object","properties":{"a":{}},"unevaluatedProperties":false}`:                                                                           false,
		`{"type":"object","patternProperties":{"^a":{"type":"integer"}}}`:                                                                                 false,
		`{"type":"object","propertyNames":{"maxLength":0}}`:                                                                                               false,
		`{"type":"object","dependentRequired":{"a":["b"]}}`:                                                                                               false,
		`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"a":{"type":"integer","minimum":1,"exclusiveMinimum":true}}}`: true,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}}}`:  false,
	} {
		s, err := Compile("t", []byte(schema), Options{})
		if err != nil {
			t.Fatal(schema, err)
		}
		c, err := s.compiled()
		if err != nil || (c.quick != nil) != isQuick {
			t.Errorf("%s: quick is %v, want %v; %v", schema, c.quick != nil, isQuick, err)
		}
		fit := 0
		for _, raw := range values {
			args, violation := s.ParseArgs(raw)
			if violation != nil {
				t.Fatal(raw, violation)
			}
			right := c.root.Validate(args) == nil
			if right {
				fit++
			}
			if c.quick != nil && c.quick(args) && !right {
				t.Errorf("%s: %s is said to fit", schema, raw)
			}
		}
		if fit == 0 && schema != inside+`{"const":1}}}` {
			t.Errorf("%s: nothing fits", schema)
		}
	}
}

// The good path of usual arguments asks no validator, and makes nothing.
func TestUsualArgumentsMakeNothing(t *testing.T) {
	s, err := Compile("t", []byte(`{"type":"object","required":["to","amount"],"additionalProperties":false,"properties":{
		"to":{"type":"string","minLength":1,"pattern":"^A-[0-9]+$"},"amount":{"type":"integer","minimum":1},"currency":{"enum":["EUR","USD"]},"notes":{"type":"array","items":{"type":"string"}}}}`), Options{Closed: true})
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]any{"to": "A-1", "amount": json.Number("12"), "currency": "EUR", "notes": []any{"a", "b"}}
	c, err := s.compiled()
	if err != nil || !c.quick(args) {
		t.Fatal("it is not quick", err)
	}
	if n := testing.AllocsPerRun(100, func() { c.quick(args) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
