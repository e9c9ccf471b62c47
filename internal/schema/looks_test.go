package schema_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// allocated is how many bytes work takes.
func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// wrongly checks arguments with a schema from its text on.
func wrongly(t *testing.T, text, args string) (violations []tool.Error) {
	t.Helper()
	s := mustCompile(t, text, schema.Options{})
	parsed, violation := schema.ParseArgs("t", args)
	if violation != nil {
		t.Fatal(violation)
	}
	if _, _, violations = s.Check(parsed); len(violations) == 0 {
		t.Fatal("the arguments fit")
	}
	return violations
}

// toRoot is a schema of n properties that are each what the whole is.
func toRoot(n int, reference string) string {
	return strings.ReplaceAll(`{"type":"object","properties":{`+repeated(n, `"p#":{"`+reference+`":"ROOT"}`)+`}}`, "ROOT", "#")
}

// A schema of 216 KB and one wrong argument took 5 GB and 13 s: each property was
// looked for under the name of each.
func TestPropertiesThatAreTheWholeAreLookedAtOnce(t *testing.T) {
	for _, reference := range []string{"$dynamicRef", "$ref"} {
		cost := func(n int) uint64 {
			text := toRoot(n, reference)
			return allocated(func() { wrongly(t, text, `{"p000001":"x"}`) })
		}
		few, many := cost(500), cost(4000)
		if many > 20*few {
			t.Errorf("%s: 500 properties take %d bytes, 4000 of them %d", reference, few, many)
		}
	}
}

func TestASchemaOfManyPlacesIsRefusedBeforeItIsCompiled(t *testing.T) {
	for name, text := range map[string]string{
		"references":       toRoot(8000, "$dynamicRef"),
		"empty properties": `{"type":"object","properties":{` + repeated(24_000, `"p#":{}`) + `}}`,
		"true properties":  `{"type":"object","properties":{` + repeated(24_000, `"p#":true`) + `}}`,
		"branches":         `{"type":"object","anyOf":[` + repeated(24_000, `{}`) + `]}`,
		"documents":        `{"$id":"http://x/","type":"object","$defs":{` + repeated(8000, `"p#":{"$id":"i#"}`) + `}}`,
		"in no keyword":    `{"type":"object","examples":[` + repeated(24_000, `{}`) + `],"$ref":"#/examples/0"}`,
	} {
		var err error
		bytes := allocated(func() { _, err = schema.Compile("t", []byte(text), schema.Options{}) })
		fail, ok := errors.AsType[*schema.CompileError](err)
		if !ok || !strings.Contains(fail.Reason, "more than 5000 places") {
			t.Errorf("%s: %v", name, err)
		}
		if most := uint64(200 * len(text)); bytes > most {
			t.Errorf("%s: %d bytes of schema took %d", name, len(text), bytes)
		}
		if _, err := schema.CompileOutput("t", []byte(text)); err == nil {
			t.Errorf("%s: fine as an output schema", name)
		}
	}
}

// What is told of arguments is found out by looking at schemas and values, which all
// together are bounded; here each took all the memory there was.
func TestWhatIsWrongIsFoundOutWithFewLooks(t *testing.T) {
	const most = 500 << 20
	for name, c := range map[string]struct{ text, args, field string }{
		"all that is required requires all": {
			`{"type":"object","required":[` + repeated(1000, `"p#"`) + `],"properties":{` + strings.ReplaceAll(repeated(1000, `"p#":{"$ref":"ROOT"}`), "ROOT", "#") + `}}`,
			`{}`, "p000000",
		},
		"an example is much work": {
			`{"type":"object","properties":{"a":{"type":"array","minItems":1,"items":{"anyOf":[` + repeated(90, `{"const":"k#"}`) + `]},"examples":[[` + repeated(90_000, `1`) + `]]}}}`,
			`{"a":1}`, "a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var violations []tool.Error
			if bytes := allocated(func() { violations = wrongly(t, c.text, c.args) }); bytes > most {
				t.Errorf("it took %d bytes", bytes)
			}
			if violations[0].Field != c.field {
				t.Errorf("%+v", violations[0])
			}
		})
	}
}

func TestAnExplanationEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller has left")
	cancel(gone)
	unknown, names := map[string]any{}, `{"`+strings.Join(farNames(1000, 1), `":{},"`)+`":{}}`
	for _, name := range farNames(100, 2) {
		unknown[name] = ""
	}
	for text, args := range map[string]map[string]any{
		`{"type":"object","required":[` + repeated(1000, `"p#"`) + `],"properties":{` + strings.ReplaceAll(repeated(1000, `"p#":{"$ref":"ROOT"}`), "ROOT", "#") + `}}`: {},
		`{"type":"object","additionalProperties":false,"properties":` + names + `}`:                                                                                    unknown,
	} {
		_, _, violations, err := mustCompile(t, text, schema.Options{}).CheckWithin(ctx, args, 7000)
		if !errors.Is(err, gone) || violations != nil {
			t.Errorf("%.90s: %v, %d violations", text, err, len(violations))
		}
	}
}
