package schema_test

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/test/testkit/repairs"
)

// TestEveryExampleInAHintIsValid holds the package to its grammar: X of e.g. X
// put in the place of field ends that violation.
func TestEveryExampleInAHintIsValid(t *testing.T) {
	examples := 0
	for _, tool := range corpus(t) {
		s := mustCompile(t, string(tool.InputSchema), schema.Options{})
		valid, ok := s.Example(true)
		if !ok {
			t.Errorf("%s: no example", tool.Name)
			continue
		}
		for _, m := range repairs.Mutations(valid) {
			_, _, violations := s.Check(m.Args)
			for _, v := range violations {
				if !strings.Contains(v.Hint, "e.g. ") {
					continue
				}
				examples++
				alone := repairs.Program(m.Args, violations[:0:0])
				alone = repairs.Program(alone, append(violations[:0:0], v))
				_, _, after := s.Check(alone)
				for _, a := range after {
					if a.Field == v.Field && a.Constraint == v.Constraint {
						t.Errorf("%s: %+v\nis not ended by its own example: %+v", tool.Name, v, a)
					}
				}
			}
		}
	}
	if examples < 1000 {
		t.Errorf("only %d examples", examples)
	}
}

func TestExampleFitsTheSchema(t *testing.T) {
	for _, source := range []string{
		`{}`,
		`{"properties":{"a":{"type":"string","minLength":30}},"required":["a"]}`,
		`{"properties":{"a":{"type":"string","maxLength":2}},"required":["a"]}`,
		`{"properties":{"a":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}},"required":["a"]}`,
		`{"properties":{"a":{"type":"integer","minimum":7,"multipleOf":5}},"required":["a"]}`,
		`{"properties":{"a":{"type":"integer","maximum":-3}},"required":["a"]}`,
		`{"properties":{"a":{"type":"array","items":{"enum":["x","y","z"]},"minItems":3,"uniqueItems":true}},"required":["a"]}`,
		`{"properties":{"a":{"type":"array","items":{"type":"integer","minimum":1,"maximum":4},"minItems":4,"uniqueItems":true}},"required":["a"]}`,
		`{"properties":{"a":{"type":"array","contains":{"type":"object","required":["k"]},"minItems":2}},"required":["a"]}`,
		`{"properties":{"a":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false,"minItems":2}},"required":["a"]}`,
		`{"properties":{"a":{"type":"object","minProperties":2,"additionalProperties":{"type":"integer"}}},"required":["a"]}`,
		`{"properties":{"a":{"allOf":[{"type":"string","minLength":4},{"pattern":"^[A-Z]+$"}]}},"required":["a"]}`,
		`{"properties":{"a":{"anyOf":[{"type":"null"},{"type":"string","format":"uuid"}]}},"required":["a"]}`,
		`{"properties":{"a":{"oneOf":[{"type":"integer"},{"type":"number","minimum":5}]}},"required":["a"]}`,
		`{"properties":{"a":{"not":{"type":"string"}}},"required":["a"]}`,
		`{"properties":{"k":{"const":"x"},"v":{"type":"integer"}},"required":["k"],"if":{"properties":{"k":{"const":"x"}}},"then":{"required":["v"]}}`,
		`{"properties":{"t":{"$ref":"#/$defs/t"}},"required":["t"],"$defs":{"t":{"type":"object","properties":{"c":{"type":"array","items":{"$ref":"#/$defs/t"}}},"required":["c"]}}}`,
		`{"properties":{"a":{"default":null,"type":["string","null"]}},"required":["a"]}`,
		`{"properties":{"a":{"type":"string","format":"email","examples":["not an address","me@example.org"]}},"required":["a"]}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"type":"string","example":"of OpenAPI"}},"required":["a"]}`,
	} {
		s := mustCompile(t, source, schema.Options{})
		for _, full := range []bool{true, false} {
			args, ok := s.Example(full)
			if !ok {
				t.Errorf("no example for %s", source)
				continue
			}
			if _, _, violations := s.Check(args); violations != nil {
				t.Errorf("%s: %v is refused: %+v", source, args, violations)
			}
		}
	}
}

func TestExampleGivesUpOnContradictions(t *testing.T) {
	for _, source := range []string{
		`{"properties":{"a":{"type":"integer","minimum":5,"maximum":4}},"required":["a"]}`,
		`{"properties":{"a":false},"required":["a"]}`,
		`{"properties":{"a":{"$ref":"#/$defs/o"}},"required":["a"],"$defs":{"o":{"type":"object","properties":{"a":{"$ref":"#/$defs/o"}},"required":["a"]}}}`,
	} {
		s := mustCompile(t, source, schema.Options{})
		if args, ok := s.Example(true); ok {
			t.Errorf("%s: %v", source, args)
		}
		if _, _, violations := s.Check(map[string]any{}); len(violations) != 1 || strings.Contains(violations[0].Hint, "e.g.") {
			t.Errorf("%s: %+v", source, violations)
		}
	}
}

// Reproduced: an empty text was answered with "https://", whatever it was for.
func TestAnExampleIsNoHalfOfOne(t *testing.T) {
	for _, c := range []struct{ schema, sent, want string }{
		{`{"type":"string","minLength":1}`, ``, `"text"`},
		{`{"type":"string","minLength":2}`, `a`, `"text"`},
		{`{"type":"string","minLength":5}`, `abc`, `"textt"`},
		{`{"type":"string","format":"uri","minLength":1}`, ``, `"https://example.com/path"`},
		{`{"type":"string","format":"uri"}`, ` `, `"https://example.com/path"`},
		{`{"type":"string","format":"uri"}`, `/a`, `"https://example.com/path"`},
		{`{"type":"string","format":"uri"}`, `?q=1`, `"https://example.com/path"`},
		{`{"type":"string","format":"json-pointer","minLength":1}`, ``, `"/items/0"`},
		{`{"type":"string","pattern":"^#"}`, ``, `"#"`}, // the pattern's own
		// what the sender has meant is still better than any other example
		{`{"type":"string","format":"uri"}`, `example.org/a`, `"https://example.org/a"`},
		{`{"type":"string","pattern":"^https?://"}`, `example.org/a`, `"https://example.org/a"`},
		{`{"type":"string","format":"e164"}`, `004915112345678`, `"+4915112345678"`},
		{`{"type":"string","format":"color"}`, `1e90ff`, `"#1e90ff"`},
		{`{"type":"string","pattern":"^/"}`, `docs`, `"/docs"`},
	} {
		s := mustCompile(t, `{"properties":{"a":`+c.schema+`}}`, schema.Options{})
		_, _, violations := s.Check(map[string]any{"a": c.sent})
		if len(violations) == 0 || !strings.Contains(violations[0].Hint, "e.g. "+c.want+",") {
			t.Errorf("%s, of %q: %+v, want e.g. %s", c.schema, c.sent, violations, c.want)
		}
	}
}
