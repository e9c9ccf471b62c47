package app

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

func TestLocateFindsThePlaceThatAnErrorNames(t *testing.T) {
	_, input := schema.Compile("t", []byte(`{"properties":{"a/b":{"type":"nothing"}}}`), schema.Options{})
	_, output := schema.CompileOutput("t", []byte(`{"type":7}`))
	_, program := interpret.Compile(interpret.Config{
		Success: "1", Result: "body..x",
		Errors:  []interpret.Rule{{When: "true", Code: tool.CodeNotFound}, {When: "statuss == 1", Code: tool.CodeNotFound}},
		Partial: &interpret.PartialRule{Items: "result.items", OK: "itemm"},
	})
	_, verification := interpret.CompileVerification(interpret.VerificationConfig{
		Args: map[string]string{"a.b": "x"}, DoneWhen: "1", Result: "y",
	})
	_, undecided := interpret.CompileVerification(interpret.VerificationConfig{})
	for name, c := range map[string]struct {
		err  error
		want []string // in any order
	}{
		"verification":  {verification, []string{"t.args.a.b", "t.done_when", "t.result"}},
		"undecided":     {undecided, []string{"t"}},
		"input schema":  {input, []string{"t.properties.a/b.type"}},
		"output schema": {output, []string{"t.type"}},
		"expressions":   {program, []string{"t.http.success", "t.http.result", "t.errors.1.when", "t.partial.ok"}},
		"another error": {errors.New("success is not here"), []string{"t"}},
		"wrapped":       {fmt.Errorf("tool t: %w", errors.New("broken")), []string{"t"}},
	} {
		got := locate(c.err, []string{"t"})
		if len(got) != len(c.want) {
			t.Errorf("%s: found %d places, want %q: %v", name, len(got), c.want, got)
			continue
		}
		for i, want := range c.want {
			found := false
			for _, one := range got {
				found = found || strings.Join(one.path, ".") == want
			}
			if !found || got[i].err.Error() == "" || strings.Contains(got[i].err.Error(), "\n") {
				t.Errorf("%s: %s is not among %v", name, want, got)
			}
		}
	}
}
