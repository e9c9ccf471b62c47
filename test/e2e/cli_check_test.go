//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
)

// checked runs sidecall check on a file of that text, in its directory.
func checked(t *testing.T, text string, args ...string) (code int, stdout string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sidecall.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := harness.CLI(t, append([]string{"check", file}, args...)...)
	if stderr != "" {
		t.Errorf("check writes to stderr: %s", stderr)
	}
	return code, strings.ReplaceAll(stdout, file, "sidecall.yaml")
}

const oneBackend = `backends: {up: {http: {base_url: "http://127.0.0.1:1", allow_private: true}}}
tools:
`

func TestCLICheckAcceptsAGoodFile(t *testing.T) {
	t.Parallel()
	good := oneBackend + `  a:
    backend: up
    description: Reads.
    http: {method: GET, path: "/a/{id}"}
    empty_when: "size(result.items) == 0"
    input_schema: {type: object, properties: {id: {type: string}}, required: [id], additionalProperties: false}
`
	if code, said := checked(t, good); code != 0 || said != "sidecall.yaml: ok: 1 backend, 1 tool\n" {
		t.Errorf("exit code %d\n%s", code, said)
	}
	code, said := checked(t, good, "--json")
	found := parse[map[string]any](t, said)
	if code != 0 || found["tools"] != 1.0 || len(found["errors"].([]any)) != 0 || len(found["warnings"].([]any)) != 0 {
		t.Errorf("--json: exit code %d\n%s", code, said)
	}
	// What check accepts, serve serves.
	harness.Start(t, good)
}

func TestCLICheckNamesEveryMistake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string // one line each
	}{
		"unknown key": {
			"backends:\n  up:\n    http: {base_url: \"http://127.0.0.1:1\", alow_private: true}\n",
			[]string{`sidecall.yaml:3:44: backends.up.http.alow_private: unknown key; did you mean "allow_private"?`},
		},
		"not YAML": {"backends: {up: {http: \n", []string{"sidecall.yaml:2:1: not YAML"}},
		"schema that does not compile": {
			oneBackend + "  a: {backend: up, http: {method: GET, path: /a}, input_schema: {type: object, properties: {n: {type: integr}}}}\n",
			[]string{`sidecall.yaml:3:103: tools.a.input_schema.properties.n.type: not a JSON Schema that can be used: must be one of`},
		},
		"pattern that does not compile": {
			oneBackend + "  a: {backend: up, http: {method: GET, path: /a}, input_schema: {properties: {n: {pattern: \"(\"}}}}\n",
			[]string{`sidecall.yaml:3:92: tools.a.input_schema.properties.n.pattern: `},
		},
		"remote reference": {
			oneBackend + "  a: {backend: up, http: {method: GET, path: /a}, input_schema: {$ref: \"http://127.0.0.1:1/x.json\"}}\n",
			[]string{"tools.a.input_schema", "never fetched"},
		},
		"output schema that does not compile": {
			oneBackend + "  a: {backend: up, http: {method: GET, path: /a}, output_schema: {type: objekt}}\n",
			[]string{"sidecall.yaml:3:73: tools.a.output_schema.type: "},
		},
		"CEL that does not parse, or type-check": {
			oneBackend + `  a:
    backend: up
    http: {method: GET, path: /a, success: "statuss == 200"}
    errors:
      - {when: "status == 404", code: NOT_FOUND}
      - {when: "status == 'x'", code: NOT_FOUND}
    empty_when: "size(result.items"
`,
			[]string{
				"sidecall.yaml:5:44: tools.a.http.success: column 1: undeclared reference to 'statuss'",
				"sidecall.yaml:8:16: tools.a.errors[1].when: column 8: found no matching overload",
				"sidecall.yaml:9:17: tools.a.empty_when: column 18: Syntax error",
			},
		},
		"CEL that is no condition": {
			oneBackend + "  a: {backend: up, http: {method: GET, path: /a}, empty_when: \"status + 1\"}\n",
			[]string{"tools.a.empty_when: want a condition that is true or false"},
		},
		"unreadable secret": {
			"backends:\n  up: {http: {base_url: \"http://127.0.0.1:1\", headers: {A: \"${env:E2E_NOT_SET}\", B: \"${file:/no/such/secret}\"}}}\n",
			[]string{
				"sidecall.yaml:2:60: backends.up.http.headers.A: environment variable E2E_NOT_SET is not set",
				"backends.up.http.headers.B: cannot read the file /no/such/secret: no such file or directory",
			},
		},
		"bad URL template": {
			oneBackend + "  a: {backend: up, http: {method: GET, path: \"/a/{id\"}}\n",
			[]string{`sidecall.yaml:3:46: tools.a.http.path: a { of the path is not closed by a }`},
		},
		"URL template that climbs": {
			oneBackend + "  a: {backend: up, http: {method: GET, path: \"/a/../{id}\"}}\n", []string{"tools.a.http: ", "a . or .. segment"},
		},
		"bad base URL": {
			"backends: {up: {http: {base_url: \"ftp://x\"}}}\n", []string{"sidecall.yaml:1:34: backends.up.http.base_url: expected a URL"},
		},
		"unknown backend": {
			oneBackend + "  a: {backend: upp, http: {method: GET, path: /a}}\n", []string{`tools.a.backend: there is no backend "upp"; did you mean "up"?`},
		},
		"unreadable certificate": {
			"backends: {up: {http: {base_url: \"https://127.0.0.1:1\", tls: {ca: /no/such/ca.pem}}}}\n",
			[]string{"backends.up.http: tls: ca: open /no/such/ca.pem: no such file or directory"},
		},
		"unreadable certificate of Redis": {
			"store: {redis: {addrs: [\"127.0.0.1:1\"], tls: {ca: /no/such/ca.pem}}}\n",
			[]string{"sidecall.yaml:1:46: store.redis.tls: ca: open /no/such/ca.pem: no such file or directory"},
		},
		"braces in the prefix of Redis": {
			"store: {redis: {addrs: [\"127.0.0.1:1\"], key_prefix: \"{a}\"}}\n", []string{"sidecall.yaml:1:53: store.redis.key_prefix: braces"},
		},
		"not loopback": {"listen: [\"tcp://0.0.0.0:1\"]\n", []string{"sidecall.yaml:1:10: listen[0]: this address can be reached from other machines"}},
		"two mistakes": {
			"retentoin: 1h\ndefault_profile: nobody\n",
			[]string{`sidecall.yaml:1:1: retentoin: unknown key; did you mean "retention"?`, "sidecall.yaml:2:", "nobody"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, said := checked(t, c.text)
			if code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
			for line := range strings.Lines(said) {
				if !strings.HasPrefix(line, "error: sidecall.yaml:") && !strings.HasPrefix(line, "warning: ") && !strings.HasSuffix(line, " errors\n") && line != "sidecall.yaml: 1 error\n" {
					t.Errorf("a line without a position: %s", line)
				}
			}
			refused := harness.New(t, "")
			if err := os.WriteFile(refused.Config, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			serveCode, _, stderr := harness.CLI(t, "serve", "--config", refused.Config)
			if serveCode != 2 || !strings.Contains(strings.ReplaceAll(stderr, refused.Config, "sidecall.yaml"), c.want[0]) {
				t.Errorf("serve: exit code %d, want 2 that says the same\n%s", serveCode, stderr)
			}
		})
	}
}

func TestCLICheckWarns(t *testing.T) {
	t.Parallel()
	code, said := checked(t, oneBackend+`  a:
    backend: up
    http: {method: GET, path: /a}
    input_schema:
      type: object
      properties:
        s: {type: string, minLength: 3, pattern: "^a"}
        l: {type: array, items: {type: object, minProperties: 1}, uniqueItems: true}
        minLength: {type: string}
`)
	if code != 0 || !strings.HasSuffix(said, "sidecall.yaml: ok: 1 backend, 1 tool\n") {
		t.Errorf("warnings make it exit with %d\n%s", code, said)
	}
	for _, want := range []string{
		`warning: sidecall.yaml:6:5: tools.a.input_schema: provider strict modes drop "minLength" at /properties/s/minLength`,
		`strict modes drop "minProperties" at /properties/l/items/minProperties`,
		`strict modes drop "uniqueItems" at /properties/l/uniqueItems`,
		`warning: sidecall.yaml:3:3: tools.a: no description`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not warn %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, `"minLength" at /properties/minLength`) {
		t.Errorf("a property is taken for a keyword:\n%s", said)
	}
}

// A real server is asked for its tools, and what the file says is held against
// them.
func TestCLICheckDiscovers(t *testing.T) {
	t.Parallel()
	text := inYAML(t, map[string]any{"backends": map[string]any{
		"files": with(stdio(t)(mcpservers.Filesystem(t.TempDir())), "prefix", "files_",
			"exclude", []string{"no_such_*"}, "effects", map[string]string{"read_text_file": "read_only", "read_txt_file": "read_only"}),
	}, "profiles": map[string]any{"p": map[string]any{"tools": []string{"files_read_text_file", "files_red_*"}}}})
	code, said := checked(t, text, "--discover")
	for _, want := range []string{
		"of 13 tools nobody says what repeating them does, so they count as non_idempotent: files_create_directory, ", "[effect]",
		`the backend has no tool like "no_such_*" [unmatched]`, `the backend has no tool like "read_txt_file" [unmatched]`,
		`no tool matches "files_red_*" [unknown-name]`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if code != 0 || strings.Contains(said, "note: ") || strings.Contains(said, "files_read_text_file") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if code, said := checked(t, text); code != 0 || !strings.Contains(said, `"files_red_*"; it has to be a discovered one [undiscovered]`) {
		t.Errorf("without asking: exit code %d\n%s", code, said)
	}
}
