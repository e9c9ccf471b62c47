package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhereAJournalIsKept(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]struct {
		on   bool
		file string
	}{
		"{}":                                  {false, here + "/sidecall.journal"},
		"store: {memory: {}}":                 {false, here + "/sidecall.journal"},
		`store: {redis: {addrs: ["r:6379"]}}`: {true, here + "/sidecall.journal"},
		"journal: {path: /other/disk/j}":      {true, "/other/disk/j"},
		"{journal: {enabled: true}, instance: shop/a}":                                        {true, here + "/sidecall.shop%2Fa.journal"},
		"journal: {enabled: true}":                                                            {true, here + "/sidecall.journal"},
		"journal: {enabled: false, path: /j}":                                                 {false, "/j"},
		"{store: {memory: {}}, journal: {path: /j}}":                                          {false, "/j"},
		`{store: {redis: {addrs: ["r:6379"]}}, journal: {enabled: false}}`:                    {false, here + "/sidecall.journal"},
		`{store: {redis: {addrs: ["r:6379"]}}, journal: {path: "/run/${env:SIDECALL_TEST}"}}`: {true, "/run/x"},
	} {
		t.Setenv("SIDECALL_TEST", "x")
		c, err := Parse("sidecall.yaml", []byte(text), System())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Journal.On(c.Store.Kind()); got != want.on || c.JournalPath() != want.file {
			t.Errorf("%s: on %t at %s, want %t at %s", text, got, c.JournalPath(), want.on, want.file)
		}
		if c.Journal.MaxBytes != 64<<20 {
			t.Errorf("%s: %v", text, c.Journal.MaxBytes)
		}
	}
}

func TestTheJournalIsNotTheStore(t *testing.T) {
	_, err := Parse("sidecall.yaml", []byte("journal: {path: ./sidecall.db}"), System())
	if err == nil || !strings.Contains(err.Error(), "journal.path") || !strings.Contains(err.Error(), "file of the store") {
		t.Errorf("got %v", err)
	}
}

// A config means the same wherever the sidecar is started: another store is another
// memory, and calls would run again.
func TestRelativePathsAreSeenFromTheFile(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"key": "s3cret", "sidecall.yaml": `
store: {embedded: {path: ./data/calls.db}}
journal: {enabled: true}
backends:
  files: {exec: {dir: tools}}
  shop: {http: {base_url: "https://shop.example", headers: {X-Key: "${file:key}"}, tls: {ca: ca.pem}}}
  remote: {mcp: {command: [./server]}}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func(path string) *Config {
		t.Helper()
		c, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Chdir(elsewhere)
	named, err := filepath.Rel(elsewhere, filepath.Join(dir, "sidecall.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{named, filepath.Join(dir, "sidecall.yaml")} {
		c := load(path)
		socket, _ := c.OperatorAddress()
		for is, want := range map[string]string{
			c.Store.Embedded.Path.Reveal():                "data/calls.db",
			c.JournalPath():                               "sidecall.journal",
			c.PinsFile():                                  "sidecall.pins",
			c.Backends["files"].Exec.Dir.Reveal():         "tools",
			c.Backends["shop"].HTTP.TLS.CA.Reveal():       "ca.pem",
			c.FileReferences()[0].Path:                    "key",
			strings.TrimPrefix(socket, "unix://"):         "data/calls.operator.sock",
			filepath.Join(c.Dir, "where commands run in"): "where commands run in",
		} {
			if is != filepath.Join(dir, want) {
				t.Errorf("%s: %s, want %s below %s", path, is, want, dir)
			}
		}
		if got := c.Backends["shop"].HTTP.Headers["X-Key"].Reveal(); got != "s3cret" {
			t.Errorf("the reference leads to %q", got)
		}
	}
	t.Setenv("SIDECALL_DIR", elsewhere)
	if err := os.WriteFile("key", []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := load(named).Store.Embedded.Path.Reveal(); got != filepath.Join(elsewhere, "data/calls.db") {
		t.Errorf("with SIDECALL_DIR: %s", got)
	}
	if c, err := Parse(os.DevNull, []byte("{}"), System()); err != nil || c.Store.Embedded.Path.Reveal() != filepath.Join(elsewhere, "sidecall.db") {
		t.Errorf("of no file: %v, %v", c, err)
	}
}
