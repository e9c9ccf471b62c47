package assembly

import (
	"errors"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/config"
)

// What can be served is warned of where a provider would not take it as it is;
// each warning has its place.
func TestCheckWarnsOfWhatFailsElsewhere(t *testing.T) {
	warnings, err := Check(t.Context(), parsed(t, `
backends: {sh: {exec: {}}, idle: {exec: {}}}
tools:
  find:
    backend: sh
    description: Finds.
    exec: {argv: [x]}
    input_schema: {type: object, properties: {q: {type: string, minLength: 1}, "n": {items: {not: {}}}}, minProperties: 1}
  bare: {backend: sh, exec: {argv: [x]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"backends.idle: ",
		"tools.bare: no description",
		`strict modes drop "minProperties" at /minProperties`,
		`strict modes drop "minLength" at /properties/q/minLength`,
		`strict modes drop "not" at /properties/n/items/not`,
	} {
		found := 0
		for _, warning := range warnings {
			if strings.Contains(warning.Error(), want) {
				found++
				if warning.Line == 0 {
					t.Errorf("without a place: %v", warning)
				}
			}
		}
		if found != 1 {
			t.Errorf("%q is said %d times in %v", want, found, warnings)
		}
	}
	if len(warnings) != 5 {
		t.Errorf("%d warnings, want 5: %v", len(warnings), warnings)
	}
}

// A config that is wrong has its warnings told too, and the error is of the
// type that says so.
func TestCheckOfAWrongConfig(t *testing.T) {
	warnings, err := Check(t.Context(), parsed(t, `
backends: {sh: {exec: {}}, idle: {exec: {}}}
tools: {t: {backend: sh, exec: {argv: [x]}, output_schema: {type: 7}}}
`))
	problems, ok := errors.AsType[config.Problems](err)
	if !ok || len(problems) != 1 || problems[0].Path != "tools.t.output_schema.type" {
		t.Errorf("the error is %T: %v", err, err)
	}
	if len(warnings) != 1 || warnings[0].Path != "backends.idle" {
		t.Errorf("the warnings are %v", warnings)
	}
}
