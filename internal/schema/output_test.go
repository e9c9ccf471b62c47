package schema_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
)

func TestOutputSaysInOneSentenceWhatBroke(t *testing.T) {
	o, err := schema.CompileOutput("search", []byte(`{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"kind":{"enum":["a","b"]},"at":{"format":"date"}},"required":["id"]}},"total":{"type":"integer","minimum":0}},"required":["items"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"items":[{"id":1,"kind":"a"}],"total":1}`: "",
		`{"items":[{"id":1,"at":"not a date"}]}`:    "",
		`{"items":[],"items":[]}`:                   "",
		`{}`:                                        "items is missing.",
		`{"items":[{"id":1},{"id":"2"}]}`:           "items[1].id must be of type integer.",
		`{"items":[{"id":1,"kind":"z"}]}`:           `items[0].kind must be one of ["a","b"].`,
		`{"items":[],"more":1}`:                     "more is not a property of the result.",
		`{"items":[],"total":-1}`:                   "total breaks a rule: minimum: got -1, want 0.",
		`[]`:                                        "the result must be of type object.",
		`{"items":`:                                 "the result is not JSON: expected a value.",
		``:                                          "the result is not JSON: expected a JSON value.",
	} {
		if got := o.ValidateJSON([]byte(text)); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// What is JSON, and beyond what arguments may have, is let pass: the tool has run.
func TestOutputThatIsBeyondArgumentsPasses(t *testing.T) {
	o, err := schema.CompileOutput("list", []byte(`{"type":"array"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"values": "[" + strings.Repeat("1,", 100_001) + "1]", "levels": strings.Repeat("[", 101) + strings.Repeat("]", 101),
		"large": "[1e400]", "small": "[1e-500]", "half a character": `["\ud800"]`,
	} {
		if got := o.ValidateJSON([]byte(text)); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestOutputMayBeOfAnyType(t *testing.T) {
	o, err := schema.CompileOutput("count", []byte(`{"type":"integer"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := o.ValidateJSON([]byte(`5`)); got != "" {
		t.Error(got)
	}
}

func TestOutputSchemaErrors(t *testing.T) {
	_, err := schema.CompileOutput("count", []byte(`{"type":"integr"}`))
	var outputError *schema.OutputError
	if !errors.As(err, &outputError) || outputError.Pointer != "/type" {
		t.Fatalf("%v", err)
	}
	if want := `tool "count": output schema at /type: must be one of ["array","boolean","integer","null","number","object","string"], not "integr"`; err.Error() != want {
		t.Error(err)
	}
}
