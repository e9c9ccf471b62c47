package main

import (
	"bytes"
	"strings"
	"testing"
)

// said is what a command has printed, and its exit code.
type said struct {
	code        int
	out, errOut string
	err         error
}

// command runs a command of the root, as from a shell whose stdin is closed.
func command(t *testing.T, args ...string) said {
	t.Helper()
	root := newRoot()
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetIn(new(bytes.Buffer))
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(t.Context())
	return said{report(cmd, err), out.String(), errOut.String(), err}
}

// The exit code tells a shell what kind of wrong it is; usage is shown when the
// command line is.
func TestExitCodes(t *testing.T) {
	for line, want := range map[string]int{
		"version":                        0,
		"fly":                            exitUsage,
		"version --fast":                 exitUsage,
		"check /not/there":               exitUsage,
		"serve --config /not/there":      exitUsage,
		"serve --log-level loud":         exitUsage,
		"tools --format xml":             exitUsage,
		"tools --addr tcp://127.0.0.1:1": exitUnavailable,
	} {
		if got := command(t, strings.Split(line, " ")...); got.code != want || (got.err == nil) != (want == 0) {
			t.Errorf("%s: exit code %d, want %d: %v", line, got.code, want, got.err)
		}
	}
}
