package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReferences(t *testing.T) {
	env := scene{"A": "1", "B": "", "/f": "line\n", "/crlf": "line\r\n", "/two": "x\ny\n\n", "NESTED": "${env:A}"}
	for _, tt := range []struct{ source, want string }{
		{"plain", "plain"},
		{"", ""},
		{"${env:A}", "1"},
		{"a${env:A}b${env:A}c", "a1b1c"},
		{"${env:B}", ""},
		{"${file:/f}", "line"},
		{"${file:/crlf}", "line"},
		{"${file:/two}", "x\ny\n"},
		{"$${env:A}", "${env:A}"},
		{"$$${env:A}", "$${env:A}"},
		{"${env:A}$${", "1${"},
		{"$5 and 100% {x}", "$5 and 100% {x}"},
		{"${env:NESTED}", "${env:A}"},
	} {
		got, err := expandRefs(tt.source, "/", env)
		if err != nil || got.value != tt.want {
			t.Errorf("%q: %q, %v; want %q", tt.source, got.reveal(), err, tt.want)
		}
	}
}

func TestReferencesThatLeadNowhere(t *testing.T) {
	for source, want := range map[string]string{
		"${env:NO}":     "environment variable NO is not set",
		"${file:/no}":   "cannot read the file /no: file does not exist",
		"${A}":          "unknown kind of reference",
		"${env:}":       "unknown kind of reference",
		"${}":           "unknown kind of reference",
		"${env:A":       "not closed",
		"ok ${vault:x}": "unknown kind of reference",
	} {
		if _, err := expandRefs(source, "/", scene{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", source, err, want)
		}
	}
	if _, err := expandRefs("${env:A}", "/", nil); err == nil {
		t.Error("resolved without an environment")
	}
}

func TestSystemReadsThisProcess(t *testing.T) {
	t.Setenv("SIDECALL_CONFIG_TEST", "x")
	if value, ok := System().Getenv("SIDECALL_CONFIG_TEST"); !ok || value != "x" {
		t.Error("a variable is not found")
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), MaxSecretBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := System().ReadFile(path); err == nil {
		t.Error("a file of more than MaxSecretBytes was read")
	}
}

// show is every way in which Go prints a value.
func show(t *testing.T, v any) string {
	t.Helper()
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", v)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("m", "v", v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	return out.String()
}

func TestSecretsNeverShow(t *testing.T) {
	c := mustParse(t, "s.yaml", []byte(`
store: {redis: {addrs: ["a:1"], password: hunter2-written-out}}
backends:
  shop: {http: {base_url: "https://${env:SHOP_TOKEN}.example.com", proxy: "http://u:hunter2@proxy:1", headers: {A: "Bearer ${env:SHOP_TOKEN}", B: hunter2}}}
  files: {mcp: {command: [server, "--key=${env:SHOP_TOKEN}"], env: {K: "${env:SHOP_TOKEN}", L: hunter2}}}
`))
	type wrapped struct{ inner any }
	for name, v := range map[string]any{
		"config": c, "store": c.Store.Redis, "backends": c.Backends, "http": *c.Backends["shop"].HTTP,
		"headers": c.Backends["shop"].HTTP.Headers, "env": c.Backends["files"].MCP.Env,
		"secret": c.Store.Redis.Password, "unexported": wrapped{c.Store.Redis.Password},
	} {
		got := show(t, v)
		for _, secret := range append(secrets, "68756e746572", "733363723374") {
			if strings.Contains(strings.ToLower(got), secret) {
				t.Errorf("%s shows %s:\n%s", name, secret, got)
			}
		}
	}
	if got := c.Backends["shop"].HTTP.Headers["A"].Reveal(); got != "Bearer s3cr3t-t0k3n" {
		t.Errorf("revealed: %q", got)
	}
}

func TestWhatShowsInstead(t *testing.T) {
	env := scene{"A": "1"}
	secret := func(source string) Secret {
		r, err := expandRefs(source, "/", env)
		if err != nil {
			t.Fatal(err)
		}
		return seal(r)
	}
	for _, tt := range []struct {
		secret       Secret
		text, asJSON string
	}{
		{Secret{}, "", `""`},
		{NewSecret(""), "", `""`},
		{NewSecret("x"), "(secret)", `"(secret)"`},
		{secret("x"), "(secret)", `"(secret)"`},
		{secret("Bearer ${env:A}"), "(secret)", `"${env:A}"`},
		{secret("${env:A}:${env:A}"), "(secret)", `"${env:A}${env:A}"`},
	} {
		got, err := json.Marshal(tt.secret)
		if err != nil || tt.secret.String() != tt.text || string(got) != tt.asJSON {
			t.Errorf("%s and %s, want %s and %s (%v)", tt.secret, got, tt.text, tt.asJSON, err)
		}
	}
	if got := NewText("a ${env:B}").String(); got != "a ${env:B}" || (Text{}).String() != "" {
		t.Errorf("a text shows as %q", got)
	}
}

func TestRevealing(t *testing.T) {
	if diff := cmp.Diff([]string{"a", ""}, RevealList([]Text{NewText("a"), {}})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"k": "v"}, RevealMap(map[string]Secret{"k": NewSecret("v")})); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironmentOfAProcess(t *testing.T) {
	env := scene{"PATH": "/bin", "HOME": "/root"}
	pass := Env{Pass: []string{"PATH", "NOT_SET", "HOME"}}
	if diff := cmp.Diff([]string{"HOME=/root", "PATH=/bin"}, pass.List(env.Getenv)); diff != "" {
		t.Error(diff)
	}
	set := Env{Set: map[string]Secret{"B": NewSecret("2"), "A": NewSecret("1")}}
	if diff := cmp.Diff([]string{"A=1", "B=2"}, set.List(env.Getenv)); diff != "" {
		t.Error(diff)
	}
	if got := (Env{}).List(env.Getenv); len(got) != 0 {
		t.Errorf("nothing listed passes on %q", got)
	}
}

// deniedFiles is an Environment whose files cannot be read.
type deniedFiles struct{ scene }

func (deniedFiles) ReadFile(path string) ([]byte, error) {
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
}

func TestAnUnreadableSecretIsNamed(t *testing.T) {
	_, err := Parse("c.yaml", []byte(`store: {redis: {addrs: ["a:1"], password: "${file:/run/pw}"}}`), deniedFiles{})
	want := "c.yaml:1:43: store.redis.password: cannot read the file /run/pw: permission denied"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
