package app

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// secretValues are secrets that stand where something else is wanted, each with what of
// it must be seen nowhere.
var secretValues = map[string][]string{
	"-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49\nAwEHBG0wawIBAQQgevZzL1gdAFr88hb2\n-----END PRIVATE KEY-----\n": {"MIGHAgEAMBMGByqG", "AwEHBG0wawIBAQQg"},
	"hunter2secret":                          {"hunter2secret"},
	"hunter2secret:groupsecret":              {"hunter2secret", "groupsecret"},
	"/no/such/hunter2secret":                 {"hunter2secret"},
	"unix:///no/such/hunter2secret/s.sock":   {"hunter2secret"},
	"http://hunter2secret.invalid:1/":        {"hunter2secret"},
	"hunter2secret\tand \"what\" follows it": {"hunter2secret"},
	"h2s":                                    {"h2s"},
}

// scenes are configs that hold every setting that takes references, or what is above
// it. %[1]s is a directory.
var scenes = []string{`
listen: ["unix://%[1]s/s.sock"]
admin: off
http: {address: off}
store: {embedded: {path: "%[1]s/s.db"}}
pins: {path: "%[1]s/pins"}
observe: {file: "%[1]s/observed"}
profiles: {interactive: {mode: observe}}
notify: {url: "http://127.0.0.1:1", secret: "sixteen bytes of"}
backends:
  h: {http: {base_url: "http://127.0.0.1:1", allow_private: true, tls: {cert: "%[1]s/pem", key: "%[1]s/pem"}}}
  m: {mcp: {command: ["false"], dir: "%[1]s"}, tools: {x: {}}}
  u: {mcp: {url: "http://127.0.0.1:1", allow_private: true}, tools: {y: {}}}
  e: {exec: {dir: "%[1]s"}}
tools:
  t: {backend: e, exec: {argv: ["true"]}}
`, `
listen: ["unix://%[1]s/s.sock"]
admin: off
store: {redis: {addrs: ["127.0.0.1:1"], tls: {cert: "%[1]s/pem", key: "%[1]s/pem"}}}
journal: {path: "%[1]s/journal"}
`}

// TestASecretInTheWrongPlaceIsNotShown: whatever setting a reference stands in, and
// whatever is wrong with what it leads to, the reference is shown and the value is not:
// not by check, not by a start that is refused, in no log and not on /readyz.
func TestASecretInTheWrongPlaceIsNotShown(t *testing.T) {
	for _, setting := range settingsOf(reflect.TypeFor[config.Config](), nil) {
		t.Run(strings.Join(setting, "."), func(t *testing.T) {
			found := false
			for _, scene := range scenes {
				text, ok := written(t, scene, setting)
				if found = found || ok; !ok {
					continue
				}
				for value, hidden := range secretValues {
					for line := range strings.Lines(said(t, text, value)) {
						for _, part := range hidden {
							if strings.Contains(line, part) {
								t.Errorf("%q is shown: %s", part, line)
							}
						}
					}
				}
			}
			if !found {
				t.Error("no scene has the place for it")
			}
		})
	}
}

// written is a scene in a new working directory, with a reference in a setting; false
// when the scene has no place for it.
func written(t *testing.T, scene string, setting []string) (text []byte, ok bool) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	server := httptest.NewTLSServer(nil) // for its certificate
	pair := server.TLS.Certificates[0]
	server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	both := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	if err := os.WriteFile(filepath.Join(dir, "pem"), both, 0o600); err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := yaml.Unmarshal(fmt.Appendf(nil, scene, dir), &doc); err != nil {
		t.Fatal(err)
	}
	if !inserted(doc, setting, "${file:secret}") {
		return nil, false
	}
	if text, err = yaml.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	return text, true
}

// settingsOf are the paths to all settings that take references; * is a key, and [] an
// item.
func settingsOf(of reflect.Type, path []string) (found [][]string) {
	at := func(step string) []string { return append(slices.Clip(path), step) }
	switch of {
	case reflect.TypeFor[config.Text](), reflect.TypeFor[config.Secret]():
		return [][]string{path}
	case reflect.TypeFor[config.Env]():
		return [][]string{at("*")}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return settingsOf(of.Elem(), path)
	case reflect.Slice:
		return settingsOf(of.Elem(), at("[]"))
	case reflect.Map:
		return settingsOf(of.Elem(), at("*"))
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(of) {
			if key, ok := field.Tag.Lookup("yaml"); ok && key != ",inline" && len(path) < 12 {
				found = append(found, settingsOf(field.Type, at(key))...)
			}
		}
	}
	return found
}

// inserted writes a value wherever the path leads to, and reports that it leads somewhere.
func inserted(in any, path []string, value string) (done bool) {
	last := len(path) == 1
	switch in := in.(type) {
	case []any:
		if len(in) > 0 && last {
			in[0] = value
		} else if len(in) > 0 {
			if _, mapping := in[0].(map[string]any); !mapping {
				in[0] = map[string]any{}
			}
			return inserted(in[0], path[1:], value)
		}
		return len(in) > 0
	case map[string]any:
		if path[0] == "*" && last {
			in["K"] = value
			return true
		}
		if path[0] == "*" {
			for key := range in {
				done = inserted(in[key], path[1:], value) || done
			}
			return done
		}
		switch rest, ok := in[path[0]]; {
		case last:
			in[path[0]] = value
			return true
		case path[1] == "[]" && len(path) == 2:
			in[path[0]] = []any{value}
			return true
		case path[1] == "*" && len(path) == 2:
			in[path[0]] = map[string]any{"K": value}
			return true
		case ok:
			return inserted(rest, path[1:], value)
		}
	}
	return false
}

// hideout is where references of these tests lead.
type hideout string

func (h hideout) Getenv(string) (string, bool) { return string(h), true }

func (h hideout) ReadFile(string) ([]byte, error) { return []byte(h), nil }

// said is all that is said of a config whose reference leads to a value.
func said(t *testing.T, text []byte, value string) string {
	t.Helper()
	var all strings.Builder
	cfg, known := config.ExamineText("sidecall.yaml", text, hideout(value))
	for _, problem := range Check(t.Context(), cfg, known, CheckOptions{}) {
		fmt.Fprintln(&all, "check:", problem)
	}
	cfg, err := config.Parse("sidecall.yaml", text, hideout(value))
	if err != nil {
		fmt.Fprintln(&all, "refused:", err)
		return all.String()
	}
	var log locked
	s, err := Start(t.Context(), cfg, Options{Log: slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}), Version: "test"})
	if err != nil {
		fmt.Fprintln(&all, "not started:", err)
	} else {
		harness.WaitFor(t, "the backends to be down", func() bool {
			return strings.Count(log.String(), `"backend down"`) >= len(s.parts.catalog.Snapshot().Undiscovered())
		})
		page := httptest.NewRecorder()
		s.fronts.pages.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		fmt.Fprintln(&all, "/readyz:", page.Body)
		fmt.Fprintln(&all, "stopped:", s.Stop(t.Context()))
	}
	return all.String() + "log: " + log.String()
}

// locked is a log that may be read while it is written.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
