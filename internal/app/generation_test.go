package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/config"
)

// parsed is the config of a text without references.
func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// generationOf is what a config file makes, until the test ends. It keeps nothing
// on disk unless the text says so.
func generationOf(t *testing.T, text string) *generation {
	t.Helper()
	if !strings.Contains(text, "store:") {
		text += "\nstore: {memory: {}}\n"
	}
	g, err := newGeneration(parsed(t, text), surroundings{logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.retire(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// A start says the first of its warnings only, so they are in the order of the file.
func TestTheWarningsOfAStartAreInOrder(t *testing.T) {
	g := generationOf(t, `
tools:
  zap: {backend: web, effect: non_idempotent, http: {method: POST, path: /x}}
backends:
  web:
    http:
      base_url: "http://example.com"
      headers:
        X-Key-1: 0123456789abcdef
        X-Key-2: 0123456789abcdeg
        X-Key-3: 0123456789abcdeh
        X-Key-4: 0123456789abcdei
        X-Key-5: 0123456789abcdej
`)
	if len(g.warnings) < 6 {
		t.Fatalf("too few: %v", g.warnings)
	}
	inOrder := slices.IsSortedFunc(g.warnings, func(a, b config.Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	if !inOrder {
		t.Errorf("not in the order of the file: %v", g.warnings)
	}
}

// Whoever mends a file wants to read everything that is wrong with it, in the
// order in which it stands there, and nothing that follows from it.
func TestAGenerationIsBuiltWholeOrNotAtAll(t *testing.T) {
	_, err := newGeneration(parsed(t, `
tools:
  ask: {backend: sh, exec: {argv: [x]}, input_schema: {type: nothing}, errors: [{when: "statuss == 1", code: NOT_FOUND}]}
  see: {backend: web, http: {method: GET, path: /x}}
  run: {backend: sh, exec: {argv: [x]}}
backends:
  sh: {exec: {}}
  web: {http: {base_url: "http://example.com", tls: {ca: /not/there.pem}}}
`), surroundings{logger: slog.New(slog.DiscardHandler)})
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		t.Fatalf("the config is wrong, and the error is %T: %v", err, err)
	}
	want := []string{"tools.ask.input_schema.type", "tools.ask.errors[0].when", "backends.web.http"}
	if len(problems) != len(want) {
		t.Fatalf("%d problems, want %q:\n%v", len(problems), want, err)
	}
	for i, problem := range problems {
		if problem.Path != want[i] || problem.Line == 0 {
			t.Errorf("problem %d is of %s, want %s: %v", i, problem.Path, want[i], problem)
		}
	}
}

// Every kind that a config can have is one that something here builds.
func TestEveryKindOfBackendIsBuilt(t *testing.T) {
	g := generationOf(t, `
backends:
  http: {http: {base_url: "http://example.com"}}
  mcp: {mcp: {command: [server]}}
  exec: {exec: {}}
  worker: {worker: {}}
`)
	for field := range reflect.TypeFor[config.Backend]().Fields() {
		if field.Tag.Get("one") != "kind" {
			continue
		}
		name := field.Tag.Get("yaml")
		if made, ok := g.hosts[name]; !ok || made.Backend == nil || made.register == nil {
			t.Errorf("nothing is built of the kind %s", name)
		}
	}
}
