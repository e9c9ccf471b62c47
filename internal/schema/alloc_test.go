package schema

import "testing"

func TestAValidCallAllocatesNoMoreThanItsValidation(t *testing.T) {
	s, err := Compile("t", []byte(`{"properties":{"a":{"type":"string","minLength":1},"l":{"type":"array","items":{"enum":["x","y"]}}},"required":["a"],"additionalProperties":false}`), Options{Coerce: true})
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]any{"a": "b", "l": []any{"x", "y"}}
	validation := testing.AllocsPerRun(200, func() {
		if s.root().Validate(args) != nil {
			t.Fatal("refused")
		}
	})
	check := testing.AllocsPerRun(200, func() {
		if _, _, violations := s.Check(args); violations != nil {
			t.Fatal(violations)
		}
	})
	if check > validation {
		t.Errorf("%v allocations, the validation alone has %v", check, validation)
	}
}
