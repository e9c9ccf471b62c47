package interpret_test

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/tool"
)

func TestCompileErrorsSayWhereAndWhat(t *testing.T) {
	rule := func(when string) interpret.Config {
		return interpret.Config{Errors: []interpret.Rule{{When: "true", Code: tool.CodeConflict}, {When: when, Code: tool.CodeConflict}}}
	}
	for name, c := range map[string]struct {
		cfg  interpret.Config
		want []string
	}{
		"a misspelt variable":      {rule(`statu == 404`), []string{"errors[1].when", "column 1", `did you mean "status"?`, "`statu == 404`"}},
		"an unknown variable":      {rule(`response == 404`), []string{"errors[1].when", "the variables are status, exit_code, headers"}},
		"a number for a text":      {rule(`status == "404"`), []string{"errors[1].when", "column 8", "no matching overload"}},
		"no condition":             {rule(`status + 1`), []string{"errors[1].when", "want a condition that is true or false", "of type int"}},
		"a syntax error":           {rule(`status == `), []string{"errors[1].when", "column 11", "Syntax error"}},
		"two lines":                {rule("status == 1 &&\n  stat == 2"), []string{"line 2, column 3"}},
		"a bad regular expression": {rule(`text.matches("[")`), []string{"errors[1].when", "invalid matches argument"}},
		"a missing condition":      {rule(``), []string{"errors[1].when", "missing"}},
		"an unknown code":          {interpret.Config{Errors: []interpret.Rule{{When: "true", Code: "NOPE"}}}, []string{"errors[0].code", "NOPE"}},
		"a contradiction":          {interpret.Config{Errors: []interpret.Rule{{When: "true", Code: tool.CodeOutcomeUnknown, NotExecuted: true}}}, []string{"errors[0].not_executed"}},
		"empty_when":               {interpret.Config{EmptyWhen: "size(body)"}, []string{"empty_when", "want a condition"}},
		"success":                  {interpret.Config{Success: "item.ok"}, []string{"success", "undeclared reference to 'item'"}},
		"a pointer":                {interpret.Config{Result: "/a~2"}, []string{"result", "~"}},
		"a result expression":      {interpret.Config{Result: "boddy.items"}, []string{"result", `did you mean "body"?`}},
		"partial without items":    {interpret.Config{Partial: &interpret.PartialRule{OK: "item.ok"}}, []string{"partial.items"}},
		"partial without ok":       {interpret.Config{Partial: &interpret.PartialRule{Items: "body"}}, []string{"partial.ok"}},
		"items that are no list":   {interpret.Config{Partial: &interpret.PartialRule{Items: "status", OK: "item.ok"}}, []string{"partial.items", "want a list"}},
		"items over item":          {interpret.Config{Partial: &interpret.PartialRule{Items: "item.list", OK: "item.ok"}}, []string{"partial.items", "'item'"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := interpret.Compile(c.cfg)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "container") || strings.Contains(err.Error(), "ERROR:") {
				t.Errorf("error %q speaks of CEL's insides", err)
			}
		})
	}
}

func TestCompileReportsEveryMistake(t *testing.T) {
	_, err := interpret.Compile(interpret.Config{Success: "a", EmptyWhen: "b", Result: "c"})
	if err == nil {
		t.Fatal("no error")
	}
	if n := strings.Count(err.Error(), "undeclared reference"); n != 3 {
		t.Errorf("%d mistakes in %q, want 3", n, err)
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		_, err := interpret.Compile(interpret.Config{
			Errors:    []interpret.Rule{{When: "status == 404", Code: tool.CodeNotFound}},
			EmptyWhen: "size(result.items) == 0",
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
