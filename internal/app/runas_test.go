package app

import (
	"log/slog"
	"os"
	"strings"
	"testing"
)

// That a command cannot run as somebody is told by check and start, with its place.
func TestWhoACommandCannotRunAs(t *testing.T) {
	_, err := newGeneration(parsed(t, `
backends:
  a: {exec: {run_as: "nobody-of-a-name"}}
  b: {mcp: {command: [x], run_as: "54321"}}
  c: {exec: {run_as: "54321:12345"}}
tools: {t: {backend: a, exec: {argv: [x]}}, u: {backend: c, exec: {argv: [x]}}}
`), surroundings{logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		t.Fatal("nothing is wrong with it")
	}
	want := []string{
		"test.yaml:3:22: backends.a.exec.run_as: there is no user nobody-of-a-name on this machine",
		"test.yaml:4:35: backends.b.mcp.run_as: user 54321 has no entry on this machine, so its group is not known: expected 54321:GROUP",
	}
	if os.Geteuid() != 0 {
		want = append(want, "test.yaml:5:22: backends.c.exec.run_as: another user needs root")
	}
	got := strings.Split(err.Error(), "\n")
	if len(got) != len(want) {
		t.Fatalf("told:\n%v", err)
	}
	for i, line := range got {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("told %q, want %q", line, want[i])
		}
	}
}
