package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
)

// dice makes random schemas and values. The words are few, so that they meet.
type dice struct{ *rand.Rand }

func (d dice) of(words ...any) any { return words[d.IntN(len(words))] }

func (d dice) name() string {
	return d.of("a", "b", "order_id", "orderId", "kind", "x.y", "tags", "Secret", "", "é").(string)
}

func (d dice) schema(depth int) any {
	if depth <= 0 {
		return d.of(true, map[string]any{}, map[string]any{"type": "string"}, map[string]any{"type": "integer"}, map[string]any{"const": "a"}, map[string]any{"enum": []any{"a", "b", nil, json.Number("1")}}, false)
	}
	s := map[string]any{}
	for range 1 + d.IntN(4) {
		d.keyword(s, depth-1)
	}
	return s
}

func (d dice) schemas(depth int) []any {
	var out []any
	for range 1 + d.IntN(3) {
		out = append(out, d.schema(depth))
	}
	return out
}

func (d dice) members(depth int) map[string]any {
	out := map[string]any{}
	for range 1 + d.IntN(3) {
		out[d.name()] = d.schema(depth)
	}
	return out
}

func (d dice) keyword(s map[string]any, depth int) {
	count := json.Number(fmt.Sprint(d.IntN(4)))
	switch d.IntN(34) {
	case 0, 1, 2, 3:
		s["type"] = d.of("object", "array", "string", "integer", "number", "boolean", "null", []any{"string", "null"}, []any{"array", "integer"})
	case 4, 5, 6, 7:
		s["properties"] = d.members(depth)
	case 8, 9:
		s["required"] = []any{d.name()}
	case 10:
		s["additionalProperties"] = d.schema(depth)
	case 11, 12:
		s["additionalProperties"] = false
	case 13:
		s["items"] = d.schema(depth)
	case 14:
		s["prefixItems"] = d.schemas(depth)
	case 15:
		s["anyOf"] = d.schemas(depth)
	case 16:
		s["oneOf"] = d.schemas(depth)
	case 17:
		s["allOf"] = d.schemas(depth)
	case 18:
		s["not"] = d.schema(depth)
	case 19:
		s["if"], s["then"], s["else"] = d.schema(depth), d.schema(depth), d.schema(depth)
	case 20:
		s["$ref"] = d.of("#", "#/$defs/a", "#/$defs/b")
	case 21:
		s["format"] = d.of("date", "email", "uuid", "iana-tz", "password", "regex", "int32")
	case 22:
		s["pattern"] = d.of("^[a-z]+$", "^(?!a).+$", "b|c", "^$")
	case 23:
		s[d.of("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum").(string)] = count
	case 24:
		s["multipleOf"] = d.of(json.Number("2"), json.Number("0.3"))
	case 25:
		s[d.of("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties").(string)] = count
	case 26:
		s["uniqueItems"] = true
	case 27:
		s["contains"], s["maxContains"], s["minContains"] = d.schema(depth), count, json.Number("1")
	case 28:
		s["propertyNames"] = d.schema(depth)
	case 29:
		s["dependentRequired"] = map[string]any{d.name(): []any{d.name()}}
	case 30:
		s["dependentSchemas"] = d.members(depth)
	case 31:
		s[d.of("unevaluatedProperties", "unevaluatedItems").(string)] = false
	case 32:
		s["patternProperties"] = map[string]any{"^[a-k]": d.schema(depth)}
	case 33:
		s["default"], s["writeOnly"] = d.value(2), d.IntN(2) == 0
	}
}

func (d dice) value(depth int) any {
	switch n := d.IntN(9); {
	case n < 3 && depth > 0:
		return d.object(depth)
	case n < 5 && depth > 0:
		arr := []any{}
		for range d.IntN(4) {
			arr = append(arr, d.value(depth-1))
		}
		return arr
	case n == 5:
		return json.Number(fmt.Sprint(d.of(0, 1, -1, 2.5, 100, 1e10)))
	case n == 6:
		return d.of(true, false, nil)
	default:
		return d.of("a", "b", "B", "", "2026-11-21", "5", "hello world", `{"a":1}`, "[1]", "user@example.com")
	}
}

func (d dice) object(depth int) map[string]any {
	out := map[string]any{}
	for range d.IntN(4) {
		out[d.name()] = d.value(depth - 1)
	}
	return out
}

// mostBytes is how much a check of what the dice throw may allocate: what would take
// long takes much, on every machine the same.
const mostBytes = 16 << 20

// TestWhateverTheSchemaAndTheCall throws dice: nothing may panic, hang or come
// out malformed, and the library's verdict stands.
func TestWhateverTheSchemaAndTheCall(t *testing.T) {
	refused, accepted := 0, 0
	for seed := range uint64(2000) {
		d := dice{rand.New(rand.NewPCG(seed, 7))}
		source := d.schema(3)
		root, ok := source.(map[string]any)
		if !ok {
			continue
		}
		root["$defs"] = map[string]any{"a": d.schema(2), "b": d.schema(1)}
		text := compact(root)
		s, err := Compile("t", []byte(text), Options{Coerce: seed%2 == 0})
		if err != nil {
			continue // the top level cannot be an object
		}
		for range 10 {
			args := d.object(3)
			before := allocated()
			checked, _, violations := s.Check(args)
			if took := allocated() - before; took > mostBytes {
				t.Fatalf("%s, %s took %d bytes", text, compact(args), took)
			}
			wellFormed(t, violations)
			if violations == nil {
				accepted++
				if s.root().Validate(checked) != nil {
					t.Errorf("%s: %s does not fit", text, compact(checked))
				}
				continue
			}
			refused++
			if s.root().Validate(args) == nil {
				t.Errorf("%s: %s fits and is refused: %+v", text, compact(args), violations)
			}
		}
		if example, ok := s.Example(true); ok && s.root().Validate(example) != nil {
			t.Errorf("%s: the example %s does not fit", text, compact(example))
		}
	}
	if refused < 2500 || accepted < 500 {
		t.Errorf("%d refused, %d accepted: the dice are loaded", refused, accepted)
	}
}
