package schema_test

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
)

// A filter language as tools have it: two branches that both lead back.
const filterSchema = `{"properties":{"f":{"$ref":"#/$defs/f"}},"$defs":{"f":{"anyOf":[
	{"type":"object","properties":{"op":{"const":"and"},"all":{"type":"array","items":{"$ref":"#/$defs/f"}}},"required":["op","all"]},
	{"type":"object","properties":{"op":{"const":"or"},"all":{"type":"array","items":{"$ref":"#/$defs/f"}}},"required":["op","all"]},
	{"type":"object","properties":{"field":{"type":"string"}},"required":["field"]}]}}}`

func nestedFilter(depth int) string {
	return `{"f":` + strings.Repeat(`{"op":"or","all":[`, depth) + `{"field":"x"}` + strings.Repeat(`]}`, depth) + `}`
}

func TestDeepArgumentsOfARecursiveSchemaCannotTakeForEver(t *testing.T) {
	s := mustCompile(t, filterSchema, schema.Options{})
	for depth, accepted := range map[int]bool{0: true, 3: true, 8: true, 40: false} {
		args, violation := s.ParseArgs(nestedFilter(depth))
		if violation != nil {
			t.Fatal(*violation)
		}
		_, _, violations := s.Check(args)
		if (violations == nil) != accepted {
			t.Errorf("depth %d: %+v", depth, violations)
		}
		if !accepted && !strings.Contains(violations[0].Constraint, "nested deeper") {
			t.Errorf("%+v", violations[0])
		}
	}
}

func TestDeepArgumentsOfASimplyRecursiveSchemaAreFine(t *testing.T) {
	s := mustCompile(t, `{"properties":{"c":{"$ref":"#"},"l":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`, schema.Options{})
	for _, text := range []string{
		strings.Repeat(`{"c":`, 90) + `{}` + strings.Repeat(`}`, 90),
		strings.Repeat(`{"l":[{"c":`, 30) + `{}` + strings.Repeat(`}]}`, 30),
	} {
		args, violation := s.ParseArgs(text)
		if violation != nil {
			t.Fatal(*violation)
		}
		if _, _, violations := s.Check(args); violations != nil {
			t.Errorf("%+v", violations)
		}
	}
}

func TestManyWrongItemsAreAnsweredInBounds(t *testing.T) {
	s := mustCompile(t, `{"properties":{"l":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}`, schema.Options{})
	args, violation := s.ParseArgs(`{"l":[` + strings.Repeat("1,", 20_000) + `1]}`)
	if violation != nil {
		t.Fatal(*violation)
	}
	_, _, violations := s.Check(args)
	if len(violations) != 10 || violations[0].Field != "l[0]" || violations[9].Field != "l[9]" {
		t.Errorf("%d violations, the first %+v", len(violations), violations[0])
	}
}

func TestAReferenceToItselfIsAViolationAndNoHang(t *testing.T) {
	s := mustCompile(t, `{"properties":{"a":{"anyOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/y"}]}},"$defs":{"x":{"$ref":"#/$defs/x"},"y":{"$ref":"#/$defs/z"},"z":{"$ref":"#/$defs/y"}}}`, schema.Options{})
	if _, _, violations := s.Check(map[string]any{"a": map[string]any{"k": "v"}}); len(violations) == 0 {
		t.Error("was accepted")
	}
}
