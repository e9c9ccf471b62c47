//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mccutchen/go-httpbin/v2/httpbin"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// bin is go-httpbin, counting requests by path.
type bin struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string]int
}

func startBin(t *testing.T) *bin {
	t.Helper()
	b := &bin{requests: make(map[string]int)}
	inner := httpbin.New().Handler()
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.requests[r.URL.Path]++
		b.mu.Unlock()
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *bin) got(path string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[path]
}

func TestBadUpstreamStatusesBecomeCodes(t *testing.T) {
	t.Parallel()
	b := startBin(t)
	s := harness.Start(t, `
backends: {up: {http: {base_url: "`+b.URL+`", allow_private: true}, breaker: {failures: 100000}}}
defaults: {retry: {max_attempts: 1}}
tools:
  read: {backend: up, http: {method: GET, path: "/status/{code}"}}
  put: {backend: up, http: {method: PUT, path: "/status/{code}"}}
  act: {backend: up, http: {method: POST, path: "/status/{code}"}}
`)
	const unknown = "OUTCOME_UNKNOWN"
	for status, want := range map[int]struct {
		read, act string
		class     sidecallv1.RecoveryClass // of read
		retryable bool
	}{
		200: {"", "", 0, false},
		201: {"", "", 0, false},
		204: {"", "", 0, false},
		304: {"UNRECOVERABLE", unknown, hard, false},
		400: {"UNRECOVERABLE", "UNRECOVERABLE", hard, false},
		401: {"UNAUTHENTICATED", "UNAUTHENTICATED", hard, false},
		403: {"PERMISSION_DENIED", "PERMISSION_DENIED", hard, false},
		404: {"NOT_FOUND", "NOT_FOUND", hard, false},
		405: {"UNRECOVERABLE", "UNRECOVERABLE", hard, false},
		408: {"TIMEOUT", unknown, transient, true},
		409: {"CONFLICT", "CONFLICT", hard, true},
		410: {"NOT_FOUND", "NOT_FOUND", hard, false},
		412: {"CONFLICT", "CONFLICT", hard, true},
		418: {"UNRECOVERABLE", "UNRECOVERABLE", hard, false},
		422: {"BUSINESS_RULE", "BUSINESS_RULE", hard, false},
		429: {"RATE_LIMITED", "RATE_LIMITED", transient, true},
		500: {"DEPENDENCY_UNAVAILABLE", unknown, transient, true},
		501: {"UNRECOVERABLE", "UNRECOVERABLE", hard, false},
		502: {"DEPENDENCY_UNAVAILABLE", unknown, transient, true},
		503: {"DEPENDENCY_UNAVAILABLE", unknown, transient, true},
		504: {"DEPENDENCY_UNAVAILABLE", unknown, transient, true},
	} {
		for tool, code := range map[string]string{"read": want.read, "put": want.read, "act": want.act} {
			before := b.got(fmt.Sprint("/status/", status))
			id := fmt.Sprint(tool, status)
			res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: tool, ArgumentsJson: fmt.Sprintf(`{"code":%d}`, status)})
			fixedShape(t, id, res)
			if res.GetError().GetCode() != code {
				t.Errorf("%s, %d: %s, want %q", tool, status, res.GetContent(), code)
			}
			if code != "" && code != unknown {
				if r := res.GetRecovery(); r.GetClass() != want.class || r.GetRetryable() != want.retryable {
					t.Errorf("%s, %d: recovery %v, want %s, retryable = %t", tool, status, r, want.class, want.retryable)
				}
			}
			if code == unknown && res.GetRecovery().GetRetryable() {
				t.Errorf("%s, %d: the model is invited to repeat what may have happened", tool, status)
			}
			if n := b.got(fmt.Sprint("/status/", status)) - before; n != 1 {
				t.Errorf("%s, %d: %d requests, want 1", tool, status, n)
			}
		}
	}
	lives(t, s)
}

const (
	hard      = sidecallv1.RecoveryClass_RECOVERY_CLASS_HARD
	transient = sidecallv1.RecoveryClass_RECOVERY_CLASS_TRANSIENT
)

// shared paths are asked for by several cases.
func shared(path string) bool { return path == "/drip" || strings.Contains(path, "redirect/") }

// What go-httpbin serves, through tools that name the path.
func TestBadUpstreamHTTPBin(t *testing.T) {
	t.Parallel()
	b := startBin(t)
	cases := []struct {
		path, rules, code string
		requests          int
		says, saysNot     string
	}{
		{path: "/html", requests: 1, says: "Moby-Dick"},
		{path: "/encoding/utf8", requests: 1, says: "∮ E⋅da = Q"},
		{path: "/image/png", requests: 1, says: "image/png", saysNot: "IHDR"},
		{path: "/image/svg", requests: 1, says: "<svg"},
		{path: "/bytes/5000?seed=1", requests: 1, says: "application/octet-stream"},
		{path: "/gzip", requests: 1, says: `"gzipped": true`},
		{path: "/deflate", code: "INVALID_OUTPUT", requests: 1},
		{path: "/xml", requests: 1, says: "<slideshow"},
		{path: "/stream/20", requests: 1, says: `"id":19`},
		{path: "/range/300000", requests: 1, says: "abcdefgh"},
		{path: "/delay/9", rules: ", attempt_timeout: 2s", code: "TIMEOUT", requests: 3},
		{path: "/drip?numbytes=10&duration=9s&delay=0s", rules: ", attempt_timeout: 2s", code: "TIMEOUT", requests: 3},
		{path: "/drip?numbytes=5&duration=100ms&delay=0s", requests: 1, says: "*****"},
		{path: "/unstable?failure_rate=1", code: "DEPENDENCY_UNAVAILABLE", requests: 3},
		{path: "/redirect/3", requests: 1, says: `"url"`},
		{path: "/relative-redirect/2", requests: 1, says: `"url"`},
		{path: "/absolute-redirect/2", requests: 1, says: `"url"`},
		{path: "/redirect/9", code: "UNRECOVERABLE", requests: 1},
		{path: "/redirect-to?url=http://example.com/&status_code=302", code: "UNRECOVERABLE", requests: 1, says: "example.com"},
		{path: "/basic-auth/user/password", code: "UNAUTHENTICATED", requests: 1},
		{path: "/bearer", code: "UNAUTHENTICATED", requests: 1},
		{path: "/deny", requests: 1, says: "YOU SHOULDN'T BE HERE"},
		{path: "/no/such/page", code: "NOT_FOUND", requests: 1},
		{path: "/response-headers?Content-Type=application/json", requests: 1},
		{path: "/trailers?X-Sum=abc", requests: 1},
	}
	var config strings.Builder
	fmt.Fprintf(&config, `
backends: {up: {http: {base_url: %q, allow_private: true}, breaker: {failures: 100000}}}
defaults: {retry: {base: 5ms}}
tools:
  echo: {backend: up, http: {method: POST, path: /anything, headers: {X-Trace: trace}, query: {q: q}}}
`, b.URL)
	for i, c := range cases {
		fmt.Fprintf(&config, "  t%d: {backend: up, http: {method: GET, path: %q}%s}\n", i, c.path, c.rules)
	}
	s := harness.Start(t, config.String())
	t.Run("get", func(t *testing.T) {
		for i, c := range cases {
			t.Run(c.path, func(t *testing.T) {
				t.Parallel()
				id := fmt.Sprint("toolu_", i)
				path, _, _ := strings.Cut(c.path, "?")
				before := b.got(path)
				res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: fmt.Sprint("t", i)})
				fixedShape(t, id, res)
				if res.GetError().GetCode() != c.code || !strings.Contains(res.GetContent(), c.says) {
					t.Errorf("want code %q that says %q: %.600s", c.code, c.says, res.GetContent())
				}
				if c.saysNot != "" && strings.Contains(res.GetContent(), c.saysNot) {
					t.Errorf("the model is told %q: %.600s", c.saysNot, res.GetContent())
				}
				if n := b.got(path) - before; n != c.requests && !shared(path) {
					t.Errorf("%d requests, want %d", n, c.requests)
				}
			})
		}
	})

	res := s.Call(&sidecallv1.ExecuteToolRequest{
		ToolUseId: "echo", ToolName: "echo", ArgumentsJson: `{"q":"a&b=c ü","trace":"t-1","n":12345678901234567890,"deep":{"x":[1,2.50]}}`,
	})
	var echoed struct {
		Method  string
		Data    string
		Args    map[string][]string
		Headers map[string][]string
	}
	if err := json.Unmarshal([]byte(res.GetContent()), &echoed); err != nil {
		t.Fatalf("%v: %s", err, res.GetContent())
	}
	if echoed.Method != http.MethodPost || !strings.Contains(fmt.Sprint(echoed.Args), "a&b=c ü") || !strings.Contains(fmt.Sprint(echoed.Headers), "X-Trace:[t-1]") {
		t.Errorf("what arrived: %+v", echoed)
	}
	if !strings.Contains(res.GetContent(), "12345678901234567890") {
		t.Errorf("a large number did not survive: %s", res.GetContent())
	}
	lives(t, s)
}
