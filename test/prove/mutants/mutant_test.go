package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.." // of the module

// TestUpToDate: every mutant still has the text that it changes.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, m := range All() {
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

func TestOverlay(t *testing.T) {
	t.Parallel()
	root, dir := t.TempDir(), t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(root, "a.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := Mutant{Name: "m", Edits: []Edit{{"a.go", "one", "1"}, {"a.go", "two", "2"}}}
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
