package assembly

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/config"
)

func TestSecretsOfABackendDoNotShow(t *testing.T) {
	t.Setenv("SECRETS_TEST", "from-the-environment")
	t.Setenv("SECRETS_TEST_TOKEN", "passed-on-by-name")
	cfg, err := config.Parse("test.yaml", []byte(`
backends:
  shop: {http: {base_url: "http://127.0.0.1:1", headers: {Authorization: "Bearer literal-token", Accept: application/json, X-Shop: "${env:SECRETS_TEST}"}}}
  files: {mcp: {command: [x], env: {PATH: "/usr/bin:/bin", API_KEY: literal-key, MODE: "production", PIN: "1234"}}}
  scripts: {exec: {env: [PATH, SECRETS_TEST_TOKEN]}}
  plain: {exec: {}}
`), config.System())
	if err != nil {
		t.Fatal(err)
	}
	secrets := func(name string) *strings.Replacer {
		declared := cfg.Backends[name]
		return secretsOf(kinds[declared.Kind()].entrusted(declared))
	}
	for _, c := range []struct{ backend, said, want string }{
		{"shop", "denied: Bearer literal-token", "denied: (redacted)"},
		{"shop", "denied: literal-token", "denied: (redacted)"},
		{"shop", "denied: from-the-environment", "denied: (redacted)"},
		{"shop", "Bearer of application/json", "Bearer of application/json"},
		{"files", "no literal-key in /usr/bin:/bin, production, 1234", "no (redacted) in /usr/bin:/bin, production, 1234"},
		{"scripts", "TOKEN=passed-on-by-name", "TOKEN=(redacted)"},
	} {
		if got := secrets(c.backend).Replace(c.said); got != c.want {
			t.Errorf("%s says %q, want %q", c.backend, got, c.want)
		}
	}
	if secrets("plain") != nil {
		t.Error("a backend without secrets has some")
	}
}
