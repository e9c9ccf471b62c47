package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// noting takes down that a test has failed, and does not fail.
type noting struct {
	testing.TB

	failed bool
}

func (n *noting) Errorf(string, ...any) { n.failed = true }

func TestATextIsComparedWithItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.golden")
	if err := os.WriteFile(file, []byte("a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for got, differs := range map[string]bool{"a line": false, "another": true, "a line\n": true} {
		n := &noting{TB: t}
		if Check(n, file, got); n.failed != differs {
			t.Errorf("%q: it fails: %v", got, n.failed)
		}
	}
}
