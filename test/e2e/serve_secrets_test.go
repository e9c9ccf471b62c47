//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// What must not be seen: secrets of the operator anywhere outside the request
// to the upstream, values of arguments anywhere outside the answer to the caller.
const (
	headerSecret = "hdr-5ecret-0f3a9c"
	envSecret    = "env-5ecret-77b1d2"
	argSecret    = "arg-5ecret-c4e8aa"
)

// gossip is an upstream that tells everything it knows in its errors.
func gossip(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path == "/cut/"+argSecret {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		if !strings.Contains(r.URL.Path, "/ok") {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_ = json.NewEncoder(w).Encode(map[string]string{ // the client is the test's own
			"error": "request denied: Authorization: " + r.Header.Get("Authorization"), "length": fmt.Sprint(len(body)),
		})
	}))
	t.Cleanup(server.Close)
	return server
}

func gossipConfig(url string) string {
	return `
limits: {max_in_flight: 100}
backends:
  up: {http: {base_url: "` + url + `", allow_private: true, headers: {Authorization: "Bearer ${env:E2E_HEADER_SECRET}"}}, breaker: {failures: 1000}}
  gone: {http: {base_url: "http://127.0.0.1:1", allow_private: true, headers: {X-Api-Key: "${env:E2E_HEADER_SECRET}"}}, breaker: {failures: 1000}}
  scripts: {exec: {env: {PATH: "/usr/bin:/bin", TOKEN: "${env:E2E_ENV_SECRET}"}}}
tools:
  ok: {backend: up, http: {method: POST, path: /ok}}
  post: {backend: up, http: {method: POST, path: /post}}
  mapped: {backend: up, errors: [{when: 'text.contains("denied")', code: CONFLICT}], http: {method: POST, path: /ok}}
  get: {backend: up, http: {method: GET, path: "/get/{pin}"}}
  cut: {backend: up, http: {method: DELETE, path: "/cut/{pin}"}}
  unreached: {backend: gone, http: {method: GET, path: "/get/{pin}"}}
  script: {backend: scripts, exec: {argv: [sh, -c, "cat >&2; echo $TOKEN >&2; exit 3"]}}
  strict_path: {backend: up, sensitive_args: [pin], http: {method: GET, path: "/get/{pin}"}}
  strict:
    backend: up
    sensitive_args: [pin]
    coerce: true
    http: {method: POST, path: /ok}
    input_schema: {type: object, properties: {pin: {type: string, maxLength: 4}, n: {type: integer}, password: {type: string, format: password, minLength: 100}}}
`
}

func TestServeKeepsSecrets(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, gossipConfig(gossip(t).URL), "E2E_HEADER_SECRET="+headerSecret, "E2E_ENV_SECRET="+envSecret)
	pin := fmt.Sprintf(`{"pin":%q,"n":7,"deep":{"list":[%q]}}`, argSecret, argSecret)
	calls := map[string]struct{ tool, args, shape string }{
		"success":           {"ok", pin, "{deep:object,n:number,pin:string}"},
		"failure":           {"post", pin, "{deep:object,n:number,pin:string}"},
		"failure, mapped":   {"mapped", pin, "{deep:object,n:number,pin:string}"},
		"failure, retried":  {"get", pin, "{deep:object,n:number,pin:string}"},
		"connection broken": {"cut", pin, "{deep:object,n:number,pin:string}"},
		"not reached":       {"unreached", pin, "{deep:object,n:number,pin:string}"},
		"script fails":      {"script", pin, "{deep:object,n:number,pin:string}"},
		"sensitive refused": {"strict", `{"pin":"` + argSecret + `","password":"` + argSecret + `"}`, "{password:string,pin:string}"},
		"sensitive climbs":  {"strict_path", `{"pin":"../../` + argSecret + `"}`, "{pin:string}"},
		"coerced":           {"strict", `{"pin":"1","n":"7"}`, "{n:number,pin:string}"},
		"not JSON":          {"ok", `{"pin":"` + argSecret + `"`, "{}"},
		"unknown tool":      {"okk", pin, "{}"},
	}
	for id, c := range calls {
		res := s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: c.tool, ArgumentsJson: c.args, ConversationId: "conv"})
		said, err := protojson.Marshal(res)
		if err != nil {
			t.Fatal(err)
		}
		if res.GetIsError() && (strings.Contains(string(said), headerSecret) || strings.Contains(string(said), envSecret)) {
			t.Errorf("%s: the error shows a secret of the operator: %s", id, said)
		}
		if strings.HasPrefix(id, "sensitive ") && (strings.Contains(string(said), argSecret) || !strings.Contains(string(said), "(redacted)")) {
			t.Errorf("%s: the error shows a sensitive argument: %s", id, said)
		}
	}
	lines := callLines(t, s, len(calls))
	_, metrics := s.Get("/metrics")
	_, ready := s.Get("/readyz")
	for where, text := range map[string]string{"log": s.Log(), "/metrics": metrics, "/readyz": ready} {
		for _, secret := range []string{headerSecret, envSecret, argSecret} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s is in the %s: %s", secret, where, text[max(0, at-300):min(len(text), at+100)])
			}
		}
	}

	for id, c := range calls {
		line, ok := lines[id]
		if !ok {
			t.Errorf("no log line for %q", id)
			continue
		}
		if line.Args != c.shape || line.Tool != c.tool || line.Conversation != "conv" || line.Outcome == "" || line.Latency <= 0 {
			t.Errorf("%s: log line %+v, want the shape %s", id, line, c.shape)
		}
	}
	if got := slices.Sorted(maps.Keys(lines)); len(got) != len(calls) {
		t.Errorf("log lines for %v", got)
	}
}

// A server that is started with a secret may tell it to whoever listens.
func TestServeKeepsTheSecretsOfMCPServers(t *testing.T) {
	t.Parallel()
	const says = `echo "bad token $TOKEN" >&2; echo "token is $TOKEN"; read line; ` +
		`echo "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"invalid token $TOKEN\"}}"; cat >/dev/null`
	s := harness.Start(t, `
backends:
  chatty: {mcp: {command: [sh, -c, '`+says+`'], env: {PATH: "/usr/bin:/bin", TOKEN: "${env:E2E_ENV_SECRET}"}}}
`, "E2E_ENV_SECRET="+envSecret)
	harness.WaitFor(t, "the server to be heard", func() bool {
		return strings.Contains(s.Log(), "bad token") && strings.Contains(s.Log(), "token is") && strings.Contains(s.Log(), "backend down")
	})
	list, err := s.Client.ListTools(t.Context(), &sidecallv1.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if down := list.GetUnavailableBackends(); len(down) != 1 || !strings.Contains(down[0].GetReason(), "invalid token") {
		t.Errorf("ListTools says %v of the backend, want its own words", down)
	}
	_, ready := s.Get("/readyz")
	for where, text := range map[string]string{"log": s.Log(), "/readyz": ready, "ListTools": list.String()} {
		if at := strings.Index(text, envSecret); at >= 0 {
			t.Errorf("the secret is in %s: %s", where, text[max(0, at-300):min(len(text), at+100)])
		}
	}
}

// callLine is the log line of a call.
type callLine struct {
	Msg          string  `json:"msg"`
	ID           string  `json:"tool_use_id"`
	Conversation string  `json:"conversation"`
	Tool         string  `json:"tool"`
	Args         string  `json:"args"`
	Outcome      string  `json:"outcome"`
	Attempts     int     `json:"attempts"`
	Latency      float64 `json:"latency_ms"`
	Code         string  `json:"code"`
}

// callLines reads the log: every line is JSON, every call has one line.
func callLines(t *testing.T, s *harness.Sidecar, calls int) map[string]callLine {
	t.Helper()
	// The log arrives through a pipe, beside the answers.
	harness.WaitFor(t, "the log", func() bool { return strings.Count(s.Log(), `"msg":"call"`) >= calls })
	lines := make(map[string]callLine)
	for text := range strings.Lines(s.Log()) {
		var line callLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("a log line is not JSON: %s", text)
			continue
		}
		if line.Msg != "call" {
			continue
		}
		if _, twice := lines[line.ID]; twice {
			t.Errorf("two log lines for %q", line.ID)
		}
		lines[line.ID] = line
	}
	return lines
}

func TestServeSaysHowCallsEnded(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	s := harness.Start(t, oneTool(up.URL))
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "first", ToolName: "act"})
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "other", ToolName: "act", ArgumentsJson: "[]"})
	lines := callLines(t, s, 2)
	if l := lines["first"]; l.Outcome != "ok" || l.Attempts != 1 || l.Code != "" {
		t.Errorf("a success: %+v", l)
	}
	if l := lines["other"]; l.Outcome != "permanent_fail" || l.Attempts != 0 || l.Code != "INVALID_ARGS" {
		t.Errorf("refused arguments: %+v", l)
	}
	s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: "first", ToolName: "act"})
	harness.WaitFor(t, "the line of the replay", func() bool { return strings.Contains(s.Log(), `"outcome":"replayed"`) })
}
