package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// A client that is not served is told why, as every other command tells it.
func TestMCPTellsWhyItDoesNotServe(t *testing.T) {
	got := command(t, "mcp", "--addr", "unix:///nowhere/agent.sock")
	if got.code != exitUnavailable || got.err == nil || !strings.HasPrefix(got.err.Error(), "no sidecar answers at unix:///nowhere/agent.sock") {
		t.Errorf("%+v", got)
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
