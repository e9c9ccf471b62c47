package app

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/redact"
	"github.com/sidecall/sidecall/test/testkit/harness"
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
  basic: {http: {base_url: "http://127.0.0.1:1", headers: {Authorization: "Basic YXBwOnA0c3N3MHJkLW9mLWJhc2lj"}}}
  strings: {mcp: {command: [x], env: {DSN: "host=db user=app password='p4ssw0rd of a dsn' sslmode=require", STORAGE: "AccountName=a;AccountKey=a2V5LW9mLWFuLWFjY291bnQ=;Suffix=x", API: "https://api.example.com/?api_key=key-in-a-query&v=1"}}}
`), config.System())
	if err != nil {
		t.Fatal(err)
	}
	secrets := func(name string) *redact.Set {
		declared := cfg.Backends[name]
		return secretsOf(kinds[declared.Kind()].entrusted(declared)).set()
	}
	for _, c := range []struct{ backend, said, want string }{
		{"shop", "denied: Bearer literal-token", "denied: (redacted)"},
		{"shop", "denied: literal-token", "denied: (redacted)"},
		{"shop", "denied: from-the-environment", "denied: (redacted)"},
		{"shop", "Bearer of application/json", "Bearer of application/json"},
		{"files", "no literal-key in /usr/bin:/bin, production, 1234", "no (redacted) in /usr/bin:/bin, production, 1234"},
		{"scripts", "TOKEN=passed-on-by-name", "TOKEN=(redacted)"},
		{"basic", "user app, password p4ssw0rd-of-basic; app:p4ssw0rd-of-basic; YXBwOnA0c3N3MHJkLW9mLWJhc2lj", "user app, password (redacted); (redacted); (redacted)"},
		{"strings", "auth failed for app with p4ssw0rd of a dsn", "auth failed for app with (redacted)"},
		{"strings", "signed with a2V5LW9mLWFuLWFjY291bnQ=, asked with key-in-a-query", "signed with (redacted), asked with (redacted)"},
	} {
		if got := secrets(c.backend).Replace(c.said); got != c.want {
			t.Errorf("%s says %q, want %q", c.backend, got, c.want)
		}
	}
	if secrets("plain") != nil {
		t.Error("a backend without secrets has some")
	}
}

// What an upstream echoes of its request stands in no failure, wherever that is told.
func TestAFailureOfAnUpstreamHoldsNoSecrets(t *testing.T) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.Error(w, "denied: "+req.Header.Get("Authorization"), http.StatusBadRequest)
	}))
	t.Cleanup(echo.Close)
	cfg, err := config.Parse("test.yaml", []byte(`
backends: {shop: {http: {base_url: "`+echo.URL+`", allow_private: true, headers: {Authorization: "Bearer literal-token"}}}}
tools: {look: {backend: shop, effect: read_only, description: x, input_schema: {type: object}, http: {method: GET, path: /}}}
`), config.System())
	if err != nil {
		t.Fatal(err)
	}
	made, err := buildHTTP(blueprint{name: "shop", config: cfg.Backends["shop"]})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = made.Close(t.Context()) }()
	if err := made.register("look", cfg.Tools["look"]); err != nil {
		t.Fatal(err)
	}
	_, failure := made.Invoke(t.Context(), backend.Invocation{Tool: "look", Args: []byte("{}"), MaxBytes: 1000})
	if failure == nil || failure.Message != "denied: (redacted)" {
		t.Errorf("%+v", failure)
	}
}

// Every literal is taken for a secret that could be one; not what turns up in any
// text, and not the places that tools name and are asked for.
func TestWhatIsASecret(t *testing.T) {
	t.Setenv("WORDS_DSN", "postgres://app:p4ssw0rd-of-db@db/x")
	t.Setenv("WORDS_REGION", "production")
	t.Setenv("WORDS_HOME", "/home/somebody")
	t.Setenv("WORDS_API_TOKEN", "in-the-command-line")
	t.Setenv("WORDS_REDIS", "of-the-store-itself")
	cfg, err := config.Parse("test.yaml", []byte(`
store: {redis: {addrs: ["127.0.0.1:1"], password: "${env:WORDS_REDIS}"}}
notify: {url: "https://hooks.example.com/a?token=of-the-webhook", secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}
backends:
  files:
    mcp:
      command: [server, "--token=${env:WORDS_API_TOKEN}", --dir, "${env:WORDS_HOME}"]
      env:
        LITERAL: "a literal that is long"
        DATABASE: "${env:WORDS_DSN}"
        REGION: "${env:WORDS_REGION}"
        HOME: "${env:WORDS_HOME}"
        LANG: en_US.UTF-8
        DEBUG: "true"
        MODE: production
        ROOT: /srv/shared/documents
        API: https://api.example.com/v1/items
        HOOK: https://hooks.example.com/T0/x9Kd83JmQp20ZzAbCd
        SERVICE: '{"type":"service_account","private_key":"-----BEGIN KEY-----","client":"somebody@example"}'
        AUTH_SOCK: /tmp/agent/sock.1
  other: {exec: {}}
`), config.System())
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGeneration(cfg, surroundings{logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.close(t.Context())
	for text, at := range map[string]struct{ files, other bool }{
		"a literal that is long":                          {true, false},
		"postgres://app:p4ssw0rd-of-db@db/x":              {true, true},
		"p4ssw0rd-of-db":                                  {true, true},
		"in-the-command-line":                             {true, true},
		"of-the-store-itself":                             {true, true},
		"https://hooks.example.com/T0/x9Kd83JmQp20ZzAbCd": {true, false},
		"-----BEGIN KEY-----":                             {true, true},
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw":          {true, true},
		"of-the-webhook":                                  {true, true},
		"production":                                      {false, false},
		"true":                                            {false, false},
		"en_US.UTF-8":                                     {false, false},
		"/home/somebody":                                  {false, false},
		"/srv/shared/documents":                           {false, false},
		"https://api.example.com/v1/items":                {false, false},
		"/tmp/agent/sock.1":                               {false, false},
	} {
		for name, want := range map[string]bool{"files": at.files, "other": at.other} {
			if got := g.hosts[name].secrets.Replace("x "+text) != "x "+text; got != want {
				t.Errorf("%s takes %q for a secret: %v", name, text, got)
			}
		}
	}
}

// Whatever is a secret of the config itself is one to every tool.
func TestSecretsOfTheConfigItself(t *testing.T) {
	var found []string
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		switch {
		case of == reflect.TypeFor[config.Secret]():
			found = append(found, path)
		case of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice:
			walk(path, of.Elem())
		case of.Kind() == reflect.Struct && !strings.HasPrefix(path, ".Backends"):
			for field := range of.Fields() {
				if field.IsExported() {
					walk(path+"."+field.Name, field.Type)
				}
			}
		}
	}
	walk("", reflect.TypeFor[config.Config]())
	if want := []string{".Store.Redis.Password", ".Store.Redis.SentinelPassword", ".Notify.Secret"}; !slices.Equal(slices.Sorted(slices.Values(found)), slices.Sorted(slices.Values(want))) {
		t.Errorf("secrets are %v, and tools do not show %v (allSecrets)", found, want)
	}
}

// Why a server is down stands in the log line of each call of it, in its own words: those quote what it was sent.
func TestTheLogOfACallHoldsNoSecrets(t *testing.T) {
	o := newOffice(t, true, "read")
	target, err := url.Parse(o.url)
	if err != nil {
		t.Fatal(err)
	}
	var revoked atomic.Bool
	pass := httputil.NewSingleHostReverseProxy(target)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case !revoked.Load():
			pass.ServeHTTP(w, r)
		case bytes.Contains(body, []byte(`"initialize"`)):
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"invalid token %s"}}`, r.Header.Get("X-Key"))
		default:
			http.Error(w, "session not found", http.StatusNotFound)
		}
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	c := newChanging(t, fmt.Sprintf("backends: {office: {mcp: {url: %q, allow_private: true, headers: {X-Key: %s}}}}\ndefaults: {retry: {max_attempts: 1}}\n", web.URL, serverSecret))
	<-c.Ready()
	revoked.Store(true)
	_ = c.call("1", "read") // by which it is noticed
	harness.WaitFor(t, "it to be down", func() bool { return strings.Contains(c.log.String(), "invalid token (redacted)") })
	_ = c.call("2", "read")
	harness.WaitFor(t, "the line of the call", func() bool { return strings.Contains(c.log.String(), "tool_use_id=2") })
	log := c.log.String()
	if _, of, _ := strings.Cut(log, "tool_use_id=2"); strings.Contains(log, serverSecret) || !strings.Contains(of, "invalid token (redacted)") {
		t.Errorf("the log says\n%s", log)
	}
}
