package schema_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// costly is a pattern that keeps a core for half a minute on a megabyte of a's.
const costly = `(?:(?:a{1,10}){1,10}){1,10}b$`

func costlySchema(t *testing.T) *schema.Schema {
	t.Helper()
	s, err := schema.Compile("match", []byte(`{"type":"object","properties":{"text":{"type":"string","pattern":"`+costly+`"},
		"list":{"type":"array","items":{"type":"string","pattern":"`+costly+`"}},"re":{"type":"string","format":"regex"},"res":{"type":"array","items":{"format":"regex"}}}}`), schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// 55 bytes of an argument took all the memory there is.
func TestAnArgumentThatIsARegexIsNeverCompiled(t *testing.T) {
	s := costlySchema(t)
	_, _, violations := s.Check(map[string]any{"re": `((((((a){20000}){20000}){20000}){20000}){20000}){20000}`})
	if len(violations) != 1 || violations[0].Field != "re" {
		t.Errorf("%+v", violations)
	}
	many := make([]any, 500)
	for i := range many {
		many[i] = fmt.Sprintf("^.{0,%d}$", 20_000-i)
	}
	if allocated := testing.AllocsPerRun(1, func() { _, _, violations = s.Check(map[string]any{"res": many}) }); allocated > 1_000_000 || len(violations) > 0 {
		t.Errorf("%.0f allocations for %d expressions, %+v", allocated, len(many), violations)
	}
}

func TestAnArgumentThatIsCostlyToMatchIsRefused(t *testing.T) {
	s := costlySchema(t)
	text := strings.Repeat("a", 1<<20)
	for name, args := range map[string]map[string]any{
		"one long text":    {"text": text},
		"many texts":       {"list": toList(1000, text[:1000])},
		"many expressions": {"res": toList(100, strings.Repeat("[a-z]", 3000))},
	} {
		_, _, violations := s.Check(args)
		if len(violations) != 1 || violations[0].Code != tool.CodeInvalidArgs || !strings.Contains(violations[0].Constraint, "steps") {
			t.Errorf("%s: %+v", name, violations)
		}
	}
	for _, args := range []map[string]any{{"text": "aaab"}, {"list": toList(1000, "aab")}, {"text": strings.Repeat("a", 100) + "b", "re": text[:100]}} {
		if _, _, violations := s.Check(args); violations != nil {
			t.Errorf("%.50s: %+v", fmt.Sprint(args), violations)
		}
	}
}

func TestACheckEndsWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller has left")
	cancel(gone)
	text := strings.Repeat("a", 1<<20)
	_, _, violations, err := costlySchema(t).CheckWithin(ctx, map[string]any{"text": text}, len(text))
	if !errors.Is(err, gone) || violations != nil {
		t.Errorf("%v, %+v", err, violations)
	}
}

// A long text and a long pattern are no crime together.
func TestLongTextsThatFitArePassed(t *testing.T) {
	s, err := schema.Compile("note", []byte(`{"type":"object","properties":{"text":{"type":"string","pattern":"^[\\s\\S]{1,20000}$"},"data":{"type":"string","pattern":"^[A-Za-z0-9+/]*={0,2}$"},
		"ids":{"type":"array","items":{"type":"string","pattern":"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}}}}`), schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	args := map[string]any{
		"text": strings.Repeat("ab\n", 6000), "data": strings.Repeat("QUJD", 1<<18) + "QQ==",
		"ids": toList(10_000, "123e4567-e89b-42d3-a456-426614174000"),
	}
	if _, _, violations := s.Check(args); violations != nil {
		t.Errorf("%+v", violations)
	}
	args["ids"].([]any)[9000] = "none"
	if _, _, violations := s.Check(args); len(violations) != 1 || violations[0].Field != "ids[9000]" {
		t.Errorf("%+v", violations)
	}
}

func TestSchemasWhosePatternsAreTooLargeAreRefused(t *testing.T) {
	var side []string
	for i := range 10 {
		side = append(side, fmt.Sprintf(`"p%d":{"pattern":"^.{%d}$"}`, i, 20_000-i), fmt.Sprintf(`"q%d":{"pattern":"^[a-z]{%d}$"}`, i, 20_000-i))
	}
	for name, text := range map[string]string{
		"one pattern":       `{"type":"object","properties":{"a":{"pattern":"((((((a){20000}){20000}){20000}){20000}){20000}){20000}"}}}`,
		"a name":            `{"type":"object","patternProperties":{"((((((a){20000}){20000}){20000}){20000}){20000}){20000}":{}}}`,
		"many side by side": `{"type":"object","properties":{` + strings.Join(side, ",") + `}}`,
		"left to library":   `{"$id":"x","type":"object","properties":{` + strings.Join(side, ",") + `}}`,
	} {
		if _, err := schema.Compile("t", []byte(text), schema.Options{}); err == nil || !strings.Contains(err.Error(), "instructions") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := schema.CompileOutput("t", []byte(text)); err == nil || !strings.Contains(err.Error(), "instructions") {
			t.Errorf("%s, as output: %v", name, err)
		}
	}
	fine, err := schema.Compile("t", []byte(`{"type":"object","properties":{"a":{"pattern":"^.{0,20000}$"},"b":{"pattern":"^.{0,20000}$"}}}`), schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := fine.Instructions(); n < 20_000 || n > 25_000 {
		t.Errorf("%d instructions", n)
	}
}

// What a tool brought is not lost because it takes long to check.
func TestAResultThatIsCostlyToMatchIsPassed(t *testing.T) {
	o, err := schema.CompileOutput("match", []byte(`{"type":"string","pattern":"`+costly+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	if complaint := o.Validate(strings.Repeat("a", 10<<20)); complaint != "" {
		t.Error(complaint)
	}
	if complaint := o.Validate("aa"); complaint == "" {
		t.Error("a short result is not checked")
	}
}

func toList(n int, one string) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = one
	}
	return list
}
