package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// written is the path of a file of that text.
func written(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sidecall.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const (
	clean = `backends: {sh: {exec: {env: [PATH]}}}
tools: {a: {backend: sh, description: A., effect: read_only, exec: {argv: [ls]}}}
`
	doubtful = `backends: {a: {http: {base_url: "https://127.0.0.1"}}}
tools: {a: {backend: a, description: A., http: {method: GET, path: /a}}}
`
	noted = `backends: {m: {mcp: {command: [ls], env: [PATH]}}}` + "\n"
)

func TestExitCodesOfCheck(t *testing.T) {
	for _, c := range []struct {
		text, flags string
		code        int
		says        string
	}{
		{clean, "--strict", 0, ""},
		{noted, "--strict", 0, "note: FILE:1:15: backends.m: nothing is said of the effects"},
		{doubtful, "", 0, "warning: FILE:1:33: backends.a.http.base_url: this address is private"},
		{doubtful, "--strict", exitUsage, " [private-address]\n"},
		{doubtful, "--strict --ignore private-address,strict-mode", 0, ""},
		{"nosuch: 1\n", "", exitUsage, "error: FILE:1:1: nosuch: unknown key"},
		{"nosuch: 1\n", "", exitUsage, "FILE: 1 error\n"},
		{clean, "--ignore nosuch", exitUsage, ""},
		{"nosuch: 1\n", "--ignore unknown-key", exitUsage, ""},
	} {
		file := written(t, c.text)
		got := command(t, append([]string{"check", file}, strings.Fields(c.flags)...)...)
		if out := strings.ReplaceAll(got.out, file, "FILE"); got.code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("check %s of\n%s\nexit code %d, want %d that says %q\n%s", c.flags, c.text, got.code, c.code, c.says, out)
		}
	}
}

func TestCheckForPrograms(t *testing.T) {
	file := written(t, doubtful+"nosuch: 1\n")
	got := command(t, "check", "--json", file)
	var found findings
	if err := json.Unmarshal([]byte(got.out), &found); err != nil || got.code != exitUsage {
		t.Fatalf("exit code %d, %v: %s", got.code, err, got.out)
	}
	want := []finding{
		{"warning", "private-address", file, 1, 33, "backends.a.http.base_url", "this address is private: every call is refused without allow_private: true"},
		{"error", "unknown-key", file, 3, 1, "nosuch", found.Findings[len(found.Findings)-1].Message},
	}
	if len(found.Findings) != 2 || found.Findings[0] != want[0] || found.Findings[1] != want[1] {
		t.Errorf("%+v, want %+v", found.Findings, want)
	}
	if len(found.Errors) != 1 || len(found.Warnings) != 1 || found.Tools != 1 || found.Backends != 1 {
		t.Errorf("%+v", found)
	}
}

// A server that is asked and does not speak MCP is told of, in time.
func TestDiscoverTellsOfAServerThatDoesNotAnswer(t *testing.T) {
	got := command(t, "check", "--discover", "--strict", written(t, noted))
	if got.code != exitUsage || !strings.Contains(got.out, "backends.m: it cannot be asked for its tools: ") || !strings.Contains(got.out, " [discovery]\n") {
		t.Errorf("exit code %d: %s", got.code, got.out)
	}
}

// What the project shows others has nothing in it that it warns of, but for what
// is meant and says so.
func TestTheProjectsOwnFilesAreClean(t *testing.T) {
	files := map[string]string{}
	for _, page := range []string{"../../README.md", "../../docs/tools.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, shown, found := strings.Cut(string(text), "\n```yaml\n")
		shown, _, closed := strings.Cut(shown, "\n```")
		if !found || !closed {
			t.Fatalf("%s shows no config", page)
		}
		files[written(t, shown+"\n")] = ""
	}
	example, err := filepath.Abs("../../clients/examples/sidecall.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files[example] = "strict-mode"
	t.Chdir(t.TempDir()) // where nothing is that they may name
	for file, meant := range files {
		if got := command(t, "check", "--strict", "--ignore", meant, file); got.code != 0 || strings.Count(got.out, "\n") != 1 {
			t.Errorf("exit code %d: %s", got.code, got.out)
		}
	}
}
