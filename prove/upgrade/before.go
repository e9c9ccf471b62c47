//go:build prove

package upgrade

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sidecall/sidecall/testkit/harness"
)

// before builds the version before, and returns the path of its binary.
func before(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(dir, "source.tar")
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, harness.Root(), "git", "archive", "--output", archive, Before)
	run(t, source, "tar", "-xf", archive)
	binary := filepath.Join(dir, "sidecall-before")
	run(t, source, harness.Go(), "build", "-buildvcs=false", "-o", binary, "./cmd/sidecall")
	return binary
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v (the version before is built from the history of the repository: a shallow clone needs git fetch --unshallow)\n%s", cmd.Args, err, out)
	}
}
