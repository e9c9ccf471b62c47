package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/tool"
)

func TestConfigsOfClients(t *testing.T) {
	for _, client := range []string{"claude", "vscode", "cursor", "codex"} {
		got := command(t, "wrap", "--trust-annotations", "--print-config", client, "--", "npx", "-y", "@modelcontextprotocol/server-filesystem@1.2", `/data "x"`)
		if got.code != 0 || got.errOut != "" {
			t.Errorf("%s: %+v", client, got)
		}
		golden(t, "wrap."+client+".golden.txt", got.out)
	}
	remote := command(t, "wrap", "--url", "https://mcp.example.com/mcp", "--header", "Authorization: Bearer ${env:TOKEN}", "--header", "X-Tenant: ${file:/run/tenant}", "--print-config", "claude")
	if remote.code != 0 || remote.errOut != "" {
		t.Errorf("%+v", remote)
	}
	golden(t, "wrap.url.golden.txt", remote.out)
	if got := command(t, "wrap", "--url", "https://x", "--header", "Authorization: Bearer hunter2", "--print-config", "claude"); got.code != exitUsage || strings.Contains(got.out+got.errOut+got.err.Error(), "hunter2") || !strings.Contains(got.err.Error(), "Authorization") {
		t.Errorf("a secret would be printed: %+v", got)
	}
	if got := command(t, "wrap", "--print-config", "emacs", "--", "x"); got.code != exitUsage || !strings.Contains(got.err.Error(), "claude, vscode, cursor or codex") {
		t.Errorf("%+v", got)
	}
}

func TestTheNameOfAServer(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"npx -y @modelcontextprotocol/server-filesystem /data": "server-filesystem",
		"npx some-server@2.1":               "some-server",
		"uvx mcp-server-git":                "mcp-server-git",
		"docker run -i --rm mcp/fetch":      "fetch",
		"/usr/local/bin/my.server --port 1": "my-server",
		"node build/index.js":               "index-js",
		"uv tool run mcp-server-time":       "mcp-server-time",
		"npx":                               "npx",
	} {
		if got := (&wrapFlags{}).nameOf(strings.Fields(command)); got != want {
			t.Errorf("%s: got %s, want %s", command, got, want)
		}
	}
	one, other, named := (&wrapFlags{}).tenant([]string{"npx", "a", "/x"}), (&wrapFlags{}).tenant([]string{"npx", "a", "/y"}), (&wrapFlags{name: "n"})
	if one == other || strings.Contains(one, "/x") {
		t.Errorf("tenants of two commands: %s, %s", one, other)
	}
	if named.tenant([]string{"npx", "a", "/x"}) != named.tenant([]string{"npx", "a", "/y"}) {
		t.Error("a name is not enough")
	}
}

// A server behind a URL is called by its host, and two accounts at it are two, whatever their secrets
// are at the moment.
func TestTheNameOfAURL(t *testing.T) {
	t.Parallel()
	of := func(url string, headers ...string) *wrapFlags { return &wrapFlags{url: url, headers: headers} }
	for url, want := range map[string]string{"https://mcp.example.com:8443/mcp": "mcp-example-com", "http://[::1]:80/": "1", "${env:URL}": "server"} {
		if got := of(url).nameOf(nil); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
	one := of("https://x/mcp", "Authorization: Bearer ${env:A}").tenant(nil)
	if one == of("https://x/mcp", "Authorization: Bearer ${env:B}").tenant(nil) || one == of("https://y/mcp", "Authorization: Bearer ${env:A}").tenant(nil) {
		t.Error("two are one")
	}
	if of("https://x/mcp", "Authorization: Bearer abc").tenant(nil) != of("https://x/mcp", "Authorization: Bearer def").tenant(nil) {
		t.Error("something of a secret is in the name")
	}
}

// The config of a wrapper of a URL has what a config has for one, and what is wrong is said without
// what is secret.
func TestTheConfigOfAURL(t *testing.T) {
	t.Setenv("SIDECALL_TEST_TOKEN", "hunter2-hunter2")
	state := filepath.Join(t.TempDir(), "wrap.db")
	f := &wrapFlags{url: "https://x/mcp", headers: []string{"Authorization: Bearer ${env:SIDECALL_TEST_TOKEN}"}, timeout: wrapTimeout, maxOutput: wrapOutput}
	cfg, err := f.config(state)
	if err != nil {
		t.Fatal(err)
	}
	got := cfg.Backends[app.WrappedBackend].MCP
	if got.URL.Reveal() != "https://x/mcp" || got.Headers["Authorization"].Reveal() != "Bearer hunter2-hunter2" || got.AllowPrivate {
		t.Errorf("%v", got)
	}
	for _, wrong := range []*wrapFlags{
		{url: "ftp://x", headers: []string{"A: hunter2"}}, {url: "https://x", headers: []string{"hunter2"}}, {url: "https://x", headers: []string{": hunter2"}},
		{url: "https://x", headers: []string{"A: 1", "A: hunter2"}}, {url: "https://x", headers: []string{"A b: hunter2"}}, {url: "${env:SIDECALL_TEST_NONE}"},
	} {
		wrong.timeout, wrong.maxOutput = wrapTimeout, wrapOutput
		if _, err := wrong.config(state); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	for _, args := range [][]string{{"--url", "https://x", "--", "cmd"}, {"--header", "A: 1", "--", "cmd"}, {"--allow-private", "--", "cmd"}, {}} {
		if got := command(t, append([]string{"wrap"}, args...)...); got.code != exitUsage {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for wrong, want := range map[string]string{"Mcp-Session-Id: 1": "belongs to the protocol", "Idempotency-Key: 1": "sends a request again"} {
		got := command(t, "wrap", "--state", filepath.Join(t.TempDir(), "state"), "--url", "https://x", "--header", wrong)
		if got.code != exitUsage || !strings.Contains(got.err.Error(), want) {
			t.Errorf("%s: %+v", wrong, got)
		}
	}
}

// What the flags say stands in the config of the sidecar inside, and nothing is counted or guarded
// against that nobody has asked for.
func TestTheConfigOfAWrapper(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	effects := filepath.Join(dir, "effects.yaml")
	if err := os.WriteFile(effects, []byte("look: read_only\n\"*\": idempotent\npay: {effect: non_idempotent, effect_key: {args: [order], scope: tenant}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &wrapFlags{effects: effects, timeout: wrapTimeout, maxOutput: wrapOutput}
	cfg, err := f.config(filepath.Join(dir, "wrap.db"))
	if err != nil {
		t.Fatal(err)
	}
	claimed := tool.ReadOnly
	for name, want := range map[string]tool.Effect{"look": tool.ReadOnly, "other": tool.Idempotent, "pay": tool.NonIdempotent} {
		if got, ok := cfg.Discovered(app.WrappedBackend, name, &claimed); !ok || got.Effect != want {
			t.Errorf("%s: got %v", name, got.Effect)
		}
	}
	if pay, _ := cfg.Discovered(app.WrappedBackend, "pay", nil); len(pay.Policy.EffectKey.Args) != 1 || pay.Policy.Untrusted {
		t.Errorf("%+v", pay.Policy)
	}
	if p, ok := cfg.Profile(""); !ok || !p.LoopGuard.Off || p.MaxToolCalls+int(p.MaxTokens) != 0 {
		t.Errorf("%+v", p)
	}
	trusting, err := (&wrapFlags{trust: true, guard: true, timeout: wrapTimeout, maxOutput: wrapOutput}).config(filepath.Join(dir, "wrap.db"))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := trusting.Discovered(app.WrappedBackend, "any", &claimed); got.Effect != tool.ReadOnly {
		t.Errorf("with trust: %v", got.Effect)
	}
	if p, _ := trusting.Profile(""); p.LoopGuard.Off {
		t.Error("the loop guard is off")
	}
}

func TestWrongEffects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		"pay: sometimes":        "sometimes",
		"- pay":                 "TOOL: EFFECT",
		"pay: {effects: keyed}": "effects",
	} {
		file := filepath.Join(dir, "effects.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := (&wrapFlags{effects: file, timeout: wrapTimeout, maxOutput: wrapOutput}).config(filepath.Join(dir, "wrap.db"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := (&wrapFlags{timeout: -1, maxOutput: 1}).config("x"); err == nil {
		t.Error("a timeout of less than nothing is taken")
	}
}

// The directory of the state is its user's alone, and stands where the XDG wants it.
func TestTheStateOfAWrapper(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for set, want := range map[string]string{
		"":                              filepath.Join(home, ".local", "state", "sidecall"),
		"relative":                      filepath.Join(home, ".local", "state", "sidecall"),
		filepath.Join(home, "my state"): filepath.Join(home, "my state", "sidecall"),
	} {
		t.Setenv("XDG_STATE_HOME", set)
		got, err := (&wrapFlags{}).stateFile()
		if err != nil || got != filepath.Join(want, "wrap.db") {
			t.Errorf("%q: %s, %v", set, got, err)
		}
		if info, err := os.Stat(want); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%q: %v, %v", set, info, err)
		}
	}
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (&wrapFlags{state: open}).stateFile(); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a directory that others may use: %v", err)
	}
}

// What wrappers have written down is reported, by the command too, and what tools call themselves
// does no harm to a terminal.
func TestReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if got := command(t, "report", "--state", dir); got.code != 0 || !strings.Contains(got.out, "No calls were observed") {
		t.Errorf("%+v", got)
	}
	if got := command(t, "report", "--state", dir, "--since", "7d"); got.code != 0 {
		t.Errorf("as others take it: %+v", got)
	}
	line := `{"at":"2026-01-02T03:04:05Z","server":"s","tool":"a\u001b[31m","effect":"non_idempotent","id":"x","same":"1","ended":"lost"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, observedFile), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	got := command(t, "report", "--state", dir, "--since", "3650d")
	if got.code != 0 || !strings.Contains(got.out, `s a\x1b[31m x (non_idempotent)`) {
		t.Errorf("%+v", got)
	}
	if got := command(t, "report", "--state", dir, "--since", "3650d", "--json"); got.code != 0 || !strings.Contains(got.out, `"calls": 1`) {
		t.Errorf("%+v", got)
	}
}

// A server that is not there, and a command line that names none, are told at once.
func TestWrapWithoutAServer(t *testing.T) {
	for line, want := range map[string]string{"wrap": "behind --", "wrap --state " + filepath.Join(t.TempDir(), "s") + " -- no-such-program": "no-such-program"} {
		if got := command(t, strings.Fields(line)...); got.code != exitUsage || !strings.Contains(got.err.Error(), want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
