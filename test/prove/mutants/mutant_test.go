package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.." // of the module

// TestUpToDate: every mutant still has the text that it changes, and none is a second
// one of its suite in the short form.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	names, short := map[string]bool{}, map[string]string{}
	for _, m := range All() {
		if suite := fmt.Sprint(m.Suite); m.Short {
			if other := short[suite]; other != "" {
				t.Errorf("%q and %q are both short", other, m.Name)
			}
			short[suite] = m.Name
		}
		if names[m.Name] {
			t.Errorf("there are two mutants %q", m.Name)
		}
		names[m.Name] = true
		if _, err := m.overlay(root, t.TempDir()); err != nil {
			t.Error(err)
		}
	}
	if len(names) < 25 {
		t.Errorf("%d mutants", len(names))
	}
}

// built is a package as the go command has it.
type built struct {
	Dir, ImportPath, Export string
	GoFiles                 []string
}

// TestTheyCompile: one that does not would be caught by nothing.
func TestTheyCompile(t *testing.T) {
	t.Parallel()
	args := []string{"list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles"}
	for _, m := range All() {
		for _, e := range m.Edits {
			dir, _ := e.function()
			args = append(args, "./"+dir)
		}
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]built{} // by their directories and their paths
	for all := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p built
		if err := all.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.Dir], packages[p.ImportPath] = p, p
	}
	fset := token.NewFileSet()
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(packages[path].Export)
	})}
	parsed := map[string]*ast.File{}
	parse := func(name string, text any) *ast.File {
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
		}
		return file
	}
	for _, m := range All() {
		changed, err := m.changed(root)
		if err != nil {
			continue // TestUpToDate tells it
		}
		for name := range changed {
			dir, err := filepath.Abs(filepath.Dir(name))
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Ext(name) != ".go" {
				continue
			}
			var files []*ast.File
			for _, file := range packages[dir].GoFiles {
				path := filepath.Join(filepath.Dir(name), file)
				if text, edited := changed[path]; edited {
					files = append(files, parse(path, text))
					continue
				}
				if parsed[path] == nil {
					parsed[path] = parse(path, nil)
				}
				files = append(files, parsed[path])
			}
			if _, err := config.Check(packages[dir].ImportPath, fset, files, nil); err != nil {
				t.Errorf("mutant %q: %v", m.Name, err)
			}
		}
	}
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	root, dir := t.TempDir(), t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(root, "a.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := Mutant{Name: "m", Edits: []Edit{{In: "a.go", Old: "one", New: "1"}, {In: "a.go", Old: "two", New: "2"}}}
	write("one two")
	if _, err := m.overlay(root, dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "0_a.go"))
	if err != nil || string(got) != "1 2" {
		t.Errorf("%q, %v", got, err)
	}
	for _, stale := range []string{"one", "one two one", ""} {
		write(stale)
		if _, err := m.overlay(root, dir); err == nil || !strings.Contains(err.Error(), "stale") {
			t.Errorf("%q: %v", stale, err)
		}
	}
}

func TestOperators(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	text := `package a

// A says a && b. if c { d() }
func A(a, b bool) bool { return a && b }

type T[K any] struct{}

func (t *T[K]) A(a, b, c bool) {
	switch {
	case a &&
		b, c:
		d(a)
	case e(c):
		d(b, func() bool { return a || b })
	}
}
`
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		m            Mutant
		was, becomes string // of the text; nothing where there is no such place, or several
	}{
		{never("a condition", ".T.A", "e(", Suite{}), "case e(c)", "case false && (e(c))"},
		{never("one of two", ".T.A", "c", Suite{}), "", ""},
		{never("one in two lines", ".T.A", "a && b", Suite{}), "a &&\n\t\tb", "false && (a &&\n\t\tb)"},
		{always("an operand", ".A", "b", Suite{}), "a && b }", "a && (true || (b)) }"},
		{always("in a function in it", ".T.A", "||", Suite{}), "a || b", "(true || (a || b))"},
		{without("a statement", ".T.A", "d(a", Suite{}), "d(a)\n", "\n"},
		{without("one in another", ".T.A", "d(", Suite{}), "", ""},
		{without("what is not there", ".T.A", "f", Suite{}), "", ""},
		{without("a function that is not there", ".B", "d(", Suite{}), "", ""},
		{instead("words", ".T.A", "a&&b", "!a", Suite{}), "a &&\n\t\tb", "!a"},
		{instead("words of two places", ".T.A", "d(", "e(", Suite{}), "", ""},
	} {
		changed, err := c.m.changed(root)
		if c.was == "" {
			if err == nil || !strings.Contains(err.Error(), "stale") {
				t.Errorf("%s: %v", c.m.Name, err)
			}
			continue
		}
		want := strings.Replace(text, c.was, c.becomes, 1)
		if got := changed[filepath.Join(root, "a.go")]; err != nil || got != want || want == text {
			t.Errorf("%s: %v\n%s", c.m.Name, err, got)
		}
	}
}

// TestVerdicts: what the output of a suite means.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		suite  Suite
		output string
		want   verdict
	}{
		{memoryHistories, "ok  \tpkg\t1s\n", survived},
		{memoryHistories, "--- FAIL: TestMemory\n    x.go:1: history 3: not linearizable\nFAIL\n", caught},
		{memoryHistories, "--- FAIL: TestMemory\n    x.go:1: no redis-server\nFAIL\n", inconclusive},
		{memoryHistories, "# pkg\na.go:1:2: undefined: x\nFAIL\tpkg [build failed]\n", inconclusive},
		{memoryHistories, "panic: test timed out after 1m0s\n--- FAIL: TestMemory\nnot linearizable\nFAIL\n", inconclusive},
		{storeDown, "--- FAIL: TestTheStoreIsDown (0.00s)\n    x.go:1: 1 executions\nFAIL\n", caught},
		{storeDown, "--- FAIL: TestTheStoreIsDownAgain (0.00s)\n    x.go:1: late\nFAIL\n", inconclusive},
		{storeDown, "--- FAIL: TestTheStoreIsDown (0.00s)\npanic: runtime error: invalid memory address or nil pointer dereference [recovered]\nFAIL\n", inconclusive},
		{storeDown, "panic: nil\n\ngoroutine 7 [running]:\nFAIL\tpkg\t1s\n", inconclusive},
	} {
		if got := c.suite.read(c.output, c.want != survived); got != c.want {
			t.Errorf("%q: %v, want %v", c.output, got, c.want)
		}
	}
}
