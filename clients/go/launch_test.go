package sidecall_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	sidecall "github.com/sidecall/sidecall/clients/go"
)

// Why a sidecar did not start is said, in its own words, and nothing is left of it.
func TestWhyASidecarDidNotStart(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	program := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for says, binary := range map[string]string{
		"exit status 2\nsidecall: sidecall.yaml:3:1: no such key": program("no", "#!/bin/sh\necho 'sidecall: sidecall.yaml:3:1: no such key' >&2\nexit 2\n"),
		"name one in Launch.Binary or SIDECALL_BINARY":            filepath.Join(dir, "nothing"),
		"cannot be started: ":                                     program("other", "\x7fELF of another machine"),
	} {
		_, err := sidecall.Launch{Config: "sidecall.yaml", Binary: binary}.Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "sidecall-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
