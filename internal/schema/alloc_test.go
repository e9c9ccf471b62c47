package schema

import (
	"encoding/json"
	"testing"
)

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

// A list of such numbers is as long as a caller likes: each may cost what its text does, and no more.
func TestLargeNumbersAreWrittenWithoutArithmetic(t *testing.T) {
	for _, text := range []string{"1234567890123456789", "1732700000000000000", "1e300", "1.7e308", "111111111111111111e290"} {
		buffer, number := make([]byte, 0, 400), any(json.Number(text))
		allocated := testing.AllocsPerRun(100, func() { _, _ = AppendCanonical(buffer, number) })
		if allocated > 8 { // big.Rat takes 22 and more
			t.Errorf("%s takes %v allocations", text, allocated)
		}
	}
}
