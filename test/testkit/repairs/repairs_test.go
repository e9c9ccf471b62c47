package repairs

import (
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	args, violation := schema.ParseArgs("t", text)
	if violation != nil {
		t.Fatal(violation)
	}
	return args
}

func TestMutationsLeaveTheValidCallAlone(t *testing.T) {
	valid := parsed(t, `{"a":"x","n":5,"b":true,"l":[{"k":"2026-11-21"}],"o":{"z":null}}`)
	before := encode(valid)
	kinds := map[string]int{}
	nested := 0
	for _, m := range Mutations(valid) {
		kinds[m.Kind]++
		if m.Nested {
			nested++
		}
	}
	if encode(valid) != before {
		t.Errorf("the valid call became %s", encode(valid))
	}
	for _, kind := range []string{
		"missing", "mistyped", "misspelt", "extra", "null", "string for number", "array for scalar", "scalar for array", "out of range",
		"wrong value", "malformed date", "JSON in a string", "two at once", "too long", "too many items",
	} {
		if kinds[kind] == 0 {
			t.Errorf("no mutation of the kind %s", kind)
		}
	}
	if nested == 0 {
		t.Error("nothing nested")
	}
}

func TestRunCountsOnlyCallsThatBreak(t *testing.T) {
	report, err := Run([]Tool{{Name: "anything", InputSchema: []byte(`{"type":"object"}`), Calls: []map[string]any{{"a": 1.0}}}}, Local)
	if err != nil {
		t.Fatal(err)
	}
	if report.Total.Broken != 0 || report.Calls == 0 || report.Total.Share() != 1 {
		t.Errorf("%+v", report)
	}
}

func TestRunReportsWhatCannotBeRepaired(t *testing.T) {
	stubborn := func(Tool) (Caller, error) {
		return func(args map[string]any) ([]tool.Error, error) {
			if encode(args) == `{"a":"text"}` {
				return nil, nil
			}
			return []tool.Error{{Code: tool.CodeInvalidArgs, Constraint: "no", Hint: "No."}}, nil
		}, nil
	}
	report, err := Run([]Tool{{Name: "wall", InputSchema: []byte(`{"properties":{"a":{"type":"string"}},"required":["a"]}`)}}, stubborn)
	if err != nil {
		t.Fatal(err)
	}
	if report.Total.Broken == 0 || report.Total.Repaired != 0 || len(report.Failures) != report.Total.Broken {
		t.Errorf("%s", report)
	}
	if text := report.Failures[0].String(); text == "" || report.String() == "" {
		t.Error("nothing to read")
	}
}
