package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A client that is not served is told why, as every other command tells it.
func TestMCPTellsWhyItDoesNotServe(t *testing.T) {
	got := command(t, "mcp", "--addr", "unix:///nowhere/agent.sock")
	if got.code != exitUnavailable || got.err == nil || !strings.HasPrefix(got.err.Error(), "no sidecar answers at unix:///nowhere/agent.sock") {
		t.Errorf("%+v", got)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("toolz: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := command(t, "mcp", "--config", bad); got.code != exitUsage || got.err == nil || strings.Count(got.errOut+got.err.Error(), "toolz: unknown key") != 1 {
		t.Errorf("a config that is wrong: %+v", got)
	}
	for script, want := range map[string]int{"exit 2": exitUsage, "exit 3": exitUnavailable, "kill -9 $$": exitUnavailable} {
		if code := launchCode(fmt.Errorf("the sidecar has ended: %w", exec.Command("sh", "-c", script).Run())); code != want {
			t.Errorf("%s: exit code %d", script, code)
		}
	}
	if code := launchCode(errors.New("there is none")); code != exitUnavailable {
		t.Errorf("exit code %d", code)
	}
}
