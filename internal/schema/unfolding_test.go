package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
)

// doubling is a schema of n definitions that each refer to the next one twice;
// between puts what stands between one and the next.
func doubling(n int, between func(next string) string) string {
	var defs []string
	for i := range n {
		next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		defs = append(defs, fmt.Sprintf(`"d%d":%s`, i, between(next)))
	}
	defs = append(defs, fmt.Sprintf(`"d%d":{"required":["zz"]}`, n))
	return `{"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + strings.Join(defs, ",") + `}}`
}

func inPlace(keyword string) func(string) string {
	return func(next string) string { return fmt.Sprintf(`{%q:[%s,%s]}`, keyword, next, next) }
}

func TestReferencesThatMultiplyAreRefused(t *testing.T) {
	for keyword, between := range map[string]func(next string) string{
		"allOf": inPlace("allOf"), "anyOf": inPlace("anyOf"), "oneOf": inPlace("oneOf"),
		"if":               func(next string) string { return fmt.Sprintf(`{"if":%s,"then":%s}`, next, next) },
		"dependentSchemas": func(next string) string { return fmt.Sprintf(`{"dependentSchemas":{"x":%s,"y":%s}}`, next, next) },
	} {
		for _, n := range []int{13, 16, 40} {
			text := []byte(doubling(n, between))
			_, err := schema.Compile("t", text, schema.Options{})
			var fail *schema.CompileError
			if !errors.As(err, &fail) || !strings.HasPrefix(fail.Pointer, "/$defs/d") || !strings.Contains(fail.Reason, "references multiply") {
				t.Errorf("%s, %d levels: %v", keyword, n, err)
			}
			if _, err := schema.CompileOutput("t", text); err == nil {
				t.Errorf("%s, %d levels: fine as an output schema", keyword, n)
			}
		}
		if _, err := schema.Compile("t", []byte(doubling(6, between)), schema.Options{}); err != nil {
			t.Errorf("%s: a schema that can be checked is refused: %v", keyword, err)
		}
	}
}

// Where a definition is first met within itself, by another value, it counts no less: whatever
// the order in which they are read, none is taken of which each call would fail.
func TestReferencesThatMultiplyAreRefusedInAnyOrder(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("{},", 1500), ",")
	text := `{"additionalProperties":{"$ref":"#/$defs/a"},"$defs":{
		"a":{"additionalProperties":{"$ref":"#/$defs/b"},"allOf":[` + many + `]},
		"b":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]},
		"c":{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]}},"properties":{"x":{"$ref":"#/$defs/c"}}}`
	for range 20 {
		if _, err := schema.Compile("t", []byte(text), schema.Options{}); err == nil {
			t.Fatal("it is taken")
		}
	}
}

// Levels of the schema that meet levels of the value: only some values cost too
// much, and those are refused.
func TestValuesForWhichReferencesMultiplyAreRefused(t *testing.T) {
	items := func(next string) string { return fmt.Sprintf(`{"items":{"anyOf":[%s,%s]}}`, next, next) }
	s := mustCompile(t, doubling(40, items), schema.Options{})
	for depth, refused := range map[int]bool{1: false, 5: false, 30: true} {
		args, violation := s.ParseArgs(`{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`)
		if violation != nil {
			t.Fatal(*violation)
		}
		_, _, violations := s.Check(args)
		if (violations != nil) != refused {
			t.Errorf("depth %d: %+v", depth, violations)
		}
	}
	wide := mustCompile(t, strings.Replace(doubling(8, inPlace("anyOf")), `"a":{`, `"a":{"items":{"$ref":"#/$defs/d0"}},"b":{`, 1), schema.Options{})
	args, violation := wide.ParseArgs(`{"a":[` + strings.Repeat("1,", 5000) + `1]}`)
	if violation != nil {
		t.Fatal(*violation)
	}
	if _, _, violations := wide.Check(args); len(violations) != 1 || !strings.Contains(violations[0].Constraint, "hold more") {
		t.Errorf("%+v", violations)
	}
}
