package app

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// exposable is a directory with every kind of file that a config may name, all of
// them the user's own.
func exposable(t *testing.T) (dir, path string) {
	t.Helper()
	dir = harness.ShortDir(t)
	for name, mode := range map[string]os.FileMode{
		"secret": 0o600, "s.db": 0o600, "s.journal": 0o600, "tool": 0o755, "server": 0o755, "key.pem": 0o600, "cert.pem": 0o644, "s.pins": 0o644,
	} {
		put(t, filepath.Join(dir, name), "#!/bin/sh\n", mode)
	}
	for _, name := range []string{"run", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(dir, "bin/inside"), "#!/bin/sh\n", 0o755)
	path = filepath.Join(dir, "sidecall.yaml")
	put(t, path, fmt.Sprintf(`
listen: ["unix://%[1]s/run/s.sock"]
admin: off
store: {embedded: {path: %[1]s/s.db}}
journal: {enabled: true, path: %[1]s/s.journal}
pins: {path: %[1]s/s.pins}
backends:
  web: {http: {base_url: "https://example.com", headers: {Authorization: "${file:%[1]s/secret}"}}}
  sh: {exec: {env: {PATH: %[1]s/bin}}}
  local: {mcp: {command: [./server], dir: %[1]s}}
tools:
  get: {backend: web, description: x, http: {method: GET, path: /}}
  run: {backend: sh, description: x, exec: {argv: [%[1]s/tool]}}
  too: {backend: sh, description: x, exec: {argv: [inside]}}
`, dir), 0o644)
	return dir, path
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatOthersMayReadOrWriteAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		mode os.FileMode
		want string // empty: nothing is said
	}{
		"nothing":                         {"secret", 0o600, ""},
		"a config that is written":        {"sidecall.yaml", 0o646, "sidecall.yaml: others may write %s"},
		"a config of a group":             {"sidecall.yaml", 0o664, ""}, // the user's own group here
		"a secret that is read":           {"secret", 0o644, "sidecall.yaml:8:74: others may read %s"},
		"a secret that is written":        {"secret", 0o602, "sidecall.yaml:8:74: others may write %s"},
		"a store that is read":            {"s.db", 0o604, "sidecall.yaml:4:26: store.embedded.path: others may read %s"},
		"a journal that is read":          {"s.journal", 0o604, "sidecall.yaml:5:32: journal.path: others may read %s"},
		"pins that are written":           {"s.pins", 0o646, "sidecall.yaml:6:14: pins.path: others may write %s"},
		"a command that is written":       {"tool", 0o757, "sidecall.yaml:13:51: tools.run.exec.argv: others may write %s"},
		"one that the path leads to":      {"bin/inside", 0o757, "tools.too.exec.argv: others may write %s"},
		"a server that is written":        {"server", 0o777, "backends.local.mcp.command: others may write %s"},
		"a directory of programs":         {"bin", 0o777, "tools.too.exec.argv: others may replace %s/inside"},
		"a directory of sockets":          {"run", 0o777, "listen[0]: others may replace %s/s.sock"},
		"a directory of sockets as a tmp": {"run", 0o777 | os.ModeSticky, "listen[0]: others may replace %s/s.sock"},
		"programs as in a tmp":            {"bin", 0o777 | os.ModeSticky, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, path := exposable(t)
			file := filepath.Join(dir, c.file)
			if err := os.Chmod(file, c.mode); err != nil {
				t.Fatal(err)
			}
			if os.Getuid() != os.Getgid() && c.mode&0o020 != 0 {
				t.Logf("this user has no group of its own")
				if err := os.Chmod(file, c.mode&^0o020); err != nil {
					t.Fatal(err)
				}
			}
			cfg, err := config.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			warnings := exposed(cfg)
			if found := Check(t.Context(), cfg, nil, CheckOptions{}); len(warnings) > 0 && !slices.Contains(found, warnings[0]) {
				t.Errorf("check says %v", found)
			}
			switch {
			case c.want == "" && len(warnings) != 0:
				t.Errorf("told: %v", warnings)
			case c.want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].Error(), fmt.Sprintf(c.want, file))):
				t.Errorf("told: %v\nwant: "+c.want, warnings, file)
			}
		})
	}
}

// A link that others may replace leads wherever they like, however safe the file is to
// which it leads now.
func TestALinkThatOthersMayReplaceIsNamed(t *testing.T) {
	dir, path := exposable(t)
	shared := filepath.Join(dir, "shared")
	if err := errors.Join(os.Mkdir(shared, 0o755), os.Rename(filepath.Join(dir, "s.db"), filepath.Join(dir, "real.db")),
		os.Symlink(filepath.Join(dir, "real.db"), filepath.Join(shared, "s.db"))); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, path, strings.Replace(string(text), dir+"/s.db", shared+"/s.db", 1), 0o644)
	for mode, want := range map[os.FileMode]int{0o755: 0, 0o777: 1, 0o777 | os.ModeSticky: 0} {
		if err := os.Chmod(shared, mode); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if told := exposed(cfg); len(told) != want || want > 0 && !strings.Contains(told[0].Error(), "others may replace "+shared+"/s.db") {
			t.Errorf("%v: %v", mode, told)
		}
	}
}

// A config that others may read matters when a secret stands in it.
func TestAConfigWithASecretIsNotForOthers(t *testing.T) {
	web := func(text string) string {
		return `backends: {web: {http: {base_url: "https://example.com", ` + text + `}}}`
	}
	for text, want := range map[string]bool{
		web(`headers: {Authorization: "Bearer abc"}`):                                 true,
		web(`headers: {Authorization: "${env:HOME}"}`):                                false,
		web(`headers: {Accept: "application/json"}`):                                  false,
		web(`headers: {X-Api-Key: "", Accept: "text"}`):                               false,
		`notify: {url: "https://example.com", secret: "a secret of sixteen or more"}`: true,
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		put(t, path, text+"\n", 0o644)
		cfg, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if told := exposed(cfg); (len(told) == 1) != want {
			t.Errorf("%s: %v", text, told)
		}
	}
}

func TestTheStartNamesFilesThatOthersMayWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	put(t, path, "listen: [\"unix://"+filepath.Join(t.TempDir(), "s.sock")+"\"]\nadmin: off\nstore: {memory: {}}\n", 0o646)
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := started(t, cfg, Options{Log: slog.NewTextHandler(&log, nil), Version: "test"})
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if said := log.String(); !strings.Contains(said, "rule=exposed") || !strings.Contains(said, "others may write "+path) {
		t.Errorf("said at the start:\n%s", said)
	}
}
