package schema

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// exampleIn is X of the e.g. X that a hint holds.
func exampleIn(hint string) (any, bool) {
	_, rest, ok := strings.Cut(hint, "e.g. ")
	if !ok {
		return nil, false
	}
	dec := json.NewDecoder(strings.NewReader(rest))
	dec.UseNumber()
	var v any
	return v, dec.Decode(&v) == nil
}

// put is args with v at a path that is there, or is one member away; nil where
// there is no such place.
func put(args map[string]any, path []string, v any) map[string]any {
	if len(path) == 0 {
		out, _ := v.(map[string]any)
		return out
	}
	out := clone(args).(map[string]any)
	l := location(path)
	if _, there := l.at(out); there {
		replace(out, l, v)
		return out
	}
	parent, _ := l.parent().at(out)
	obj, ok := parent.(map[string]any)
	if !ok {
		return nil
	}
	obj[l.last()] = v
	return out
}

// TestEveryExampleFitsItsSchema: whatever the schema and the call, an example
// in the place of its field ends the violation that it was given for.
func TestEveryExampleFitsItsSchema(t *testing.T) {
	examples := 0
	for seed := range uint64(3000) {
		d := dice{rand.New(rand.NewPCG(seed, 12))}
		root := map[string]any{"type": "object", "properties": d.stringMembers(), "required": []any{"a", "b"}}
		if seed%3 == 0 {
			var ok bool
			if root, ok = d.schema(3).(map[string]any); !ok {
				continue
			}
		}
		root["$defs"] = map[string]any{"a": d.schema(2), "b": d.schema(1)}
		s, err := Compile("t", []byte(compact(root)), Options{})
		if err != nil {
			continue
		}
		for range 10 {
			args := d.object(3)
			_, _, violations := s.Check(args)
			for _, v := range violations {
				example, ok := exampleIn(v.Hint)
				if !ok {
					continue
				}
				examples++
				mended := put(args, FieldPath(v.Field), example)
				if mended == nil {
					continue
				}
				_, _, after := s.Check(mended)
				for _, a := range after {
					if a.Field == v.Field && a.Constraint == v.Constraint {
						t.Errorf("%s\nof %s: %+v\nis not ended by its example: %+v", compact(root), compact(args), v, a)
					}
				}
			}
		}
	}
	if examples < 3000 {
		t.Errorf("only %d examples", examples)
	}
}

// stringMembers are schemas of strings with what limits strings.
func (d dice) stringMembers() map[string]any {
	out := map[string]any{}
	for _, name := range []string{"a", "b"} {
		s := map[string]any{"type": "string"}
		for range 1 + d.IntN(3) {
			switch d.IntN(4) {
			case 0:
				s["minLength"] = json.Number(d.of("1", "2", "5", "12").(string))
			case 1:
				s["maxLength"] = json.Number(d.of("3", "8", "30").(string))
			case 2:
				names := sortedNames(formatOf)
				s["format"] = names[d.IntN(len(names))]
			case 3:
				s["pattern"] = d.of("^https?://", "^[A-Z]{2}$", "^\\+", "#", "^/", "^.{4,}$", "^(?!a).+$")
			}
		}
		out[name] = s
	}
	return out
}
