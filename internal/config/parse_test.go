package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustParse(t testing.TB, name string, data []byte) *Config {
	t.Helper()
	c, err := Parse(name, data, theScene)
	if err != nil {
		t.Fatalf("refused:\n%v", err)
	}
	return c
}

func indentJSON(t testing.TB, v any) string {
	t.Helper()
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestLoad(t *testing.T) {
	t.Setenv("SHOP_TOKEN", "t")
	c, err := Load("testdata/good/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Backends["shop"].HTTP.Headers["Authorization"].Reveal(); got != "Bearer t" {
		t.Errorf("header is %q", got)
	}
	if got := c.String(); got != "testdata/good/example.yaml: 3 backends, 3 tools, 2 profiles" {
		t.Errorf("summary is %q", got)
	}
}

func TestLoadOfWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, MaxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): ": cannot read the config file: no such file or directory",
		dir:                             ": cannot read the config file: is a directory",
		large:                           ": cannot read the config file: the file is too large: more than 16MiB",
	} {
		_, err := Load(path)
		var problems Problems
		if !errors.As(err, &problems) || err.Error() != path+want {
			t.Errorf("%v, want %s%s", err, path, want)
		}
	}
	if _, err := Parse("large.yaml", make([]byte, MaxFileBytes+1), theScene); err == nil || !strings.Contains(err.Error(), "16MiB") {
		t.Errorf("too much data: %v", err)
	}
}

func TestMerging(t *testing.T) {
	c := mustParse(t, "m.yaml", []byte(`
backends:
  a: &a {http: &http {base_url: "http://127.0.0.1:1", http2: false}, max_in_flight: 1, trust: untrusted}
  b:
    <<: *a
    max_in_flight: 2
  c:
    http: {<<: [{base_url: "http://127.0.0.1:3"}, *http], allow_private: true}
`))
	b, three := c.Backends["b"], c.Backends["c"].HTTP
	if b.MaxInFlight != 2 || b.Trust != Untrusted || b.HTTP.BaseURL.Reveal() != "http://127.0.0.1:1" {
		t.Errorf("b is %+v", b)
	}
	if three.BaseURL.Reveal() != "http://127.0.0.1:3" || three.HTTP2 || !three.AllowPrivate {
		t.Errorf("c is %+v", three)
	}
}

func TestMergesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("defaults: &d {")
	for i := range 2000 {
		b.WriteString("k" + index(i) + ": 1, ")
	}
	b.WriteString("}\nbackends:\n")
	for i := range 1000 {
		b.WriteString("  b" + index(i) + ": {<<: *d}\n")
	}
	_, err := Parse("m.yaml", []byte(b.String()), theScene)
	if err == nil || !strings.Contains(err.Error(), "merges (<<) bring more than 100000 keys") {
		t.Errorf("%.200v", err)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"5000": 5000, "4KiB": 4096, "4 MiB": 4 << 20, "1GiB": 1 << 30, "2kB": 2000, "3MB": 3_000_000, "2048B": 2048,
	} {
		c := mustParse(t, "s.yaml", []byte("limits: {max_request_bytes: "+text+"}"))
		if got := c.Limits.MaxRequestBytes; got != want {
			t.Errorf("%s is %d, want %d", text, got, want)
		}
	}
	for size, want := range map[Bytes]string{0: "0B", 1000: "1000B", 4096: "4KiB", 4 << 20: "4MiB", 3 << 30: "3GiB"} {
		if got := size.String(); got != want {
			t.Errorf("%d prints as %s, want %s", int64(size), got, want)
		}
	}
	for _, text := range []string{"99999999999GiB", "1.5MiB", "-1", "MiB", "1TiB"} {
		if _, err := Parse("s.yaml", []byte("limits: {keep_output_bytes: "+text+"}"), theScene); err == nil {
			t.Errorf("%s is a size", text)
		}
	}
}

func TestWhere(t *testing.T) {
	c := mustParse(t, "w.yaml", []byte(`backends:
  sh: {exec: {}}
tools:
  t:
    backend: sh
    exec: {argv: [x]}
    input_schema:
      properties:
        "a.b": {type: strnig}
    errors:
      - {when: "x ==", code: NOT_FOUND}
`))
	for _, tt := range []struct {
		path []string
		want string
	}{
		{nil, "w.yaml:1:1: "},
		{[]string{"tools", "t"}, "w.yaml:4:3: tools.t: "},
		{[]string{"tools", "t", "errors", "0", "when"}, "w.yaml:11:16: tools.t.errors[0].when: "},
		{[]string{"tools", "t", "input_schema", "properties", "a.b", "type"}, `w.yaml:9:23: tools.t.input_schema.properties["a.b"].type: `},
		{[]string{"tools", "t", "retry", "base"}, "w.yaml:4:3: tools.t.retry.base: "},
		{[]string{"tools", "t", "errors", "7"}, `w.yaml:10:5: tools.t.errors.7: `},
		{[]string{"defaults", "retry"}, "w.yaml:1:1: defaults.retry: "},
	} {
		if got := c.Where(tt.path...).Error(); got != tt.want {
			t.Errorf("Where(%q)\n got %s\nwant %s", tt.path, got, tt.want)
		}
	}
	c.Release()
	if got := c.Where("tools", "t").Error(); got != "w.yaml: tools.t: " {
		t.Errorf("after Release: %s", got)
	}
}

// Among many keys each is found where it stands.
func TestWhereAmongMany(t *testing.T) {
	t.Parallel()
	text := "store: {memory: {}}\nbackends: {x: {worker: {}}}\nprofiles:\n"
	for i := range 1000 {
		text += fmt.Sprintf("  p%d: {}\n", i)
	}
	c := mustParse(t, "w.yaml", []byte(text))
	for i := range 1000 {
		if at := c.Where("profiles", fmt.Sprint("p", i)); at.Line != 4+i {
			t.Fatalf("p%d is in line %d", i, at.Line)
		}
	}
	if at := c.Where("profiles", "q"); at.Path != "profiles.q" || at.Line != 3 {
		t.Errorf("one that there is not: %+v", at)
	}
}

func TestProblemsAreSortedAndBounded(t *testing.T) {
	c := &collector{file: "f", most: MaxProblems}
	for i := range maxCollected + 5 {
		c.add(Problem{Line: maxCollected - i%100, Column: i}, "x")
	}
	got := c.problems()
	if len(got) != MaxProblems+1 || got[MaxProblems].Message != "and 9980 more" {
		t.Fatalf("%d problems, the last %v", len(got), got[len(got)-1])
	}
	for i := 1; i < MaxProblems; i++ {
		if byPosition(got[i-1], got[i]) > 0 {
			t.Errorf("%v comes before %v", got[i-1], got[i])
		}
	}
}

func TestDefaultStore(t *testing.T) {
	c := mustParse(t, "d.yaml", []byte("{}"))
	if c.Store.Kind() != "embedded" || c.Store.Embedded.Path.String() != "./sidecall.db" {
		t.Errorf("store is %s %+v", c.Store.Kind(), c.Store.Embedded)
	}
}

func TestTLSToRedis(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		tls  *RedisTLS
		want bool
	}{
		{nil, false},
		{&RedisTLS{}, false},
		{&RedisTLS{TLS: TLS{InsecureSkipVerify: true}}, true},
		{&RedisTLS{Enabled: &yes}, true},
		{&RedisTLS{Enabled: &no, TLS: TLS{CA: Path{NewText("ca.pem")}}}, false},
	} {
		if got := tt.tls.On(); got != tt.want {
			t.Errorf("%+v: %v", tt.tls, got)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"a backend nobody uses", `backends: {sh: {exec: {}}}`, "backends.sh: no tool uses this backend"},
		{"a key that is sent in vain", `
backends: {shop: {http: {base_url: "http://127.0.0.1:1"}}}
tools: {t: {backend: shop, http: {method: POST, path: /, idempotency_header: K}}}`, "write effect: keyed"},
		{"verifying with a tool that acts", `
backends: {sh: {exec: {}}}
tools: {t: {backend: sh, exec: {argv: [x]}, verify_with: u}, u: {backend: sh, exec: {argv: [x]}}}`, `the tool "u" is non_idempotent`},
		{"an alternative that does not exist", `
backends: {sh: {exec: {}}}
tools: {get_it: {backend: sh, exec: {argv: [x]}, errors: [{when: "true", code: NOT_FOUND, allowed_alternatives: [get_itt]}]}}`, `there is no tool "get_itt"; did you mean "get_it"?`},
		{"a sensitive argument that is misspelt", `
backends: {sh: {exec: {}}}
tools: {t: {backend: sh, exec: {argv: [x]}, input_schema: {properties: {card: {}}}, sensitive_args: [crad]}}`, `the input schema has no property "crad"`},
		{"a profile for nothing", "default_profile: p\nprofiles: {p: {tools: [x_*]}}", `profiles.p.tools[0]: no tool matches "x_*"`},
		{"a file without room for one output", "limits: {keep_output_bytes: 64MiB}\nstore: {embedded: {max_bytes: 128MiB}}", "limits.keep_output_bytes, 64MiB, is never kept: expected at least 192MiB"},
		{"a narrow profile beside a wide default", `profiles: {p: {tools: [read_output]}}`, `profiles: a request that names no profile gets "interactive", which is built in and has every tool`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Problems(mustParse(t, "w.yaml", []byte(tt.file)).Warnings()).Error()
			if !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
				t.Errorf("warnings:\n%s\nwant one with %q", got, tt.want)
			}
		})
	}
}

func TestDumpIsTheConfigAgain(t *testing.T) {
	// What shows in the dump, put into a file again, is the same config, as
	// long as no secret is written out in it.
	c := mustParse(t, "a.yaml", []byte(`
listen: ["tcp://127.0.0.1:${env:PORT}"]
backends:
  shop: {http: {base_url: "http://127.0.0.1:1", http2: false, headers: {A: "${env:SHOP_TOKEN}"}}, rate_limit: {per_second: 2}}
  files: {mcp: {command: [x], env: [PATH]}, effects: {"*": read_only}}
  sh: {exec: {env: {}}}
tools:
  a: {backend: shop, http: {method: POST, path: /, body: {x: y}}, input_schema: {b: 1, a: [2.50, null]}}
  b: {backend: sh, exec: {argv: [x], exit_codes: {2: {code: NOT_FOUND}}}, effect: keyed}
profiles: {research: {max_duration: 5m}}
`))
	again := mustParse(t, "b.yaml", []byte(indentJSON(t, c)))
	if diff := cmp.Diff(indentJSON(t, c), indentJSON(t, again)); diff != "" {
		t.Error(diff)
	}
	if got := again.Backends["shop"].HTTP.Headers["A"].Reveal(); got != "s3cr3t-t0k3n" {
		t.Errorf("header is %q", got)
	}
}
