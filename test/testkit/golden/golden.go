// Package golden compares what a model or a user sees with files that people read.
package golden

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A test that uses this package has no flag of this name of its own.
var update = flag.Bool("update", false, "write the golden files")

// Check compares a text, and a line break behind it, with a file; with -update it
// writes the file instead.
func Check(t testing.TB, file, got string) {
	t.Helper()
	got += "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (with -update the test writes it): %s", file, diff)
	}
}
