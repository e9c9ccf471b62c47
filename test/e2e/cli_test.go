//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

const deskConfig = `
tools:
  get_order:
    backend: up
    description: |
      Look an order up by its id.
      The second line is for the model alone.
    http: {method: GET, path: "/orders/{order_id}"}
    input_schema: {type: object, properties: {order_id: {type: string, pattern: "^A-[0-9]+$"}}, required: [order_id], additionalProperties: false}
  refund:
    backend: up
    description: Pay <money> back & tell the customer.
    http: {method: POST, path: /refunds, idempotency_header: Idempotency-Key}
    effect: keyed
    input_schema: {type: object, properties: {order_id: {type: string}, cents: {type: integer, minimum: 1}}, required: [order_id, cents]}
  ping: {backend: up, http: {method: POST, path: /ping}}
profiles:
  reader: {tools: ["get_*"]}
`

// startDesk runs a sidecar with deskConfig and returns its address for --addr.
func startDesk(t *testing.T) (up *upstream.Server, addr string) {
	t.Helper()
	up = startUpstream(t)
	s := harness.Start(t, `backends: {up: {http: {base_url: "`+up.URL+`", allow_private: true}}}`+deskConfig)
	return up, "tcp://" + s.Addr
}

// ranWell runs a command that must work and returns what it prints.
func ranWell(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := harness.CLI(t, args...)
	if code != 0 {
		t.Fatalf("sidecall %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout, stderr
}

func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var into T
	if err := json.Unmarshal([]byte(text), &into); err != nil {
		t.Fatalf("not the JSON that was expected: %v\n%s", err, text)
	}
	return into
}

// objectSchema checks what every provider asks of the parameters of a tool.
func objectSchema(t *testing.T, name string, text json.RawMessage) {
	t.Helper()
	if schema := parse[map[string]any](t, string(text)); schema["type"] != "object" {
		t.Errorf("%s: the schema is not one of an object: %s", name, text)
	}
}

// toolName is what both providers accept.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func TestCLIToolsInEveryFormat(t *testing.T) {
	t.Parallel()
	_, addr := startDesk(t)
	names := []string{"get_order", "ping", "read_output", "refund"}

	table, _ := ranWell(t, "tools", "--addr", addr)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "TOOL ") {
		t.Errorf("the table is\n%s", table)
	}
	for i, want := range []string{`^get_order +read_only +up +Look an order up by its id\.$`, `^ping +non_idempotent +up *$`, `^read_output +read_only +sidecall`, `^refund +keyed +up`} {
		if !regexp.MustCompile(want).MatchString(lines[i+1]) {
			t.Errorf("line %q does not match %s", lines[i+1], want)
		}
	}

	text, _ := ranWell(t, "tools", "--addr", addr, "--format", "json")
	for i, tool := range parse[[]struct {
		Name, Description, Effect, Backend string
		InputSchema                        json.RawMessage `json:"input_schema"`
	}](t, text) {
		if tool.Name != names[i] || tool.Effect == "" || tool.Backend == "" {
			t.Errorf("json: tool %d is %+v", i, tool)
		}
		objectSchema(t, tool.Name, tool.InputSchema)
	}

	text, _ = ranWell(t, "tools", "--addr", addr, "--format", "anthropic")
	if !strings.Contains(text, "Pay <money> back & tell") {
		t.Errorf("anthropic: the description is escaped for HTML\n%s", text)
	}
	for i, tool := range parse[[]map[string]json.RawMessage](t, text) {
		for key := range tool {
			if key != "name" && key != "description" && key != "input_schema" {
				t.Errorf("anthropic: a key that the API does not know: %s", key)
			}
		}
		name := parse[string](t, string(tool["name"]))
		if name != names[i] || !toolName.MatchString(name) {
			t.Errorf("anthropic: tool %d is called %q", i, name)
		}
		objectSchema(t, name, tool["input_schema"])
	}

	text, _ = ranWell(t, "tools", "--addr", addr, "--format", "openai")
	for i, tool := range parse[[]struct {
		Type     string
		Function map[string]json.RawMessage
	}](t, text) {
		for key := range tool.Function {
			if key != "name" && key != "description" && key != "parameters" && key != "strict" { // of function, off unless it is said
				t.Errorf("openai: a key that the API does not know: %s", key)
			}
		}
		name := parse[string](t, string(tool.Function["name"]))
		if tool.Type != "function" || name != names[i] || !toolName.MatchString(name) {
			t.Errorf("openai: tool %d is a %q called %q", i, tool.Type, name)
		}
		objectSchema(t, name, tool.Function["parameters"])
	}

	narrow, _ := ranWell(t, "tools", "--addr", addr, "--profile", "reader")
	if !strings.Contains(narrow, "get_order") || strings.Contains(narrow, "refund") {
		t.Errorf("the profile reader sees\n%s", narrow)
	}
	if code, _, stderr := harness.CLI(t, "tools", "--addr", addr, "--format", "xml"); code != 2 || !strings.Contains(stderr, "table, json, anthropic, openai or openai-responses") {
		t.Errorf("--format xml: exit code %d\n%s", code, stderr)
	}
	if code, _, stderr := harness.CLI(t, "tools", "--addr", addr, "--profile", "raeder"); code == 0 || !strings.Contains(stderr, "raeder") {
		t.Errorf("--profile raeder: exit code %d\n%s", code, stderr)
	}
}

func TestCLICall(t *testing.T) {
	t.Parallel()
	up, addr := startDesk(t)
	up.Script("/refunds", upstream.JSON(`{"refund":"re_1"}`))
	up.Script("/orders/A-9", upstream.StatusBody(http.StatusNotFound, `{"error":"no order A-9"}`))
	refund := []string{"call", "refund", `{"order_id":"A-7","cents":5}`, "--addr", addr, "--id", "toolu_1", "--conversation", "c", "--turn", "1"}

	stdout, stderr := ranWell(t, refund...)
	if stdout != "{\"refund\":\"re_1\"}\n" || stderr != "" {
		t.Errorf("a call prints %q and %q", stdout, stderr)
	}
	stdout, stderr = ranWell(t, refund...)
	if stdout != "{\"refund\":\"re_1\"}\n" || !strings.Contains(stderr, "replayed, nothing ran") {
		t.Errorf("a replay prints %q and %q", stdout, stderr)
	}
	stdout, _ = ranWell(t, append(refund, "--json")...)
	res := &sidecallv1.ExecuteToolResponse{}
	if err := protojson.Unmarshal([]byte(stdout), res); err != nil {
		t.Fatalf("--json: %v\n%s", err, stdout)
	}
	if res.GetToolUseId() != "toolu_1" || !res.GetReplayed() || !res.GetRecorded() || res.GetContent() != `{"refund":"re_1"}` {
		t.Errorf("--json: %v", res)
	}
	if n := up.Requests("/refunds"); n != 1 {
		t.Errorf("%d requests for three calls with one id", n)
	}

	if stdout, _ := ranWell(t, "call", "ping", "--addr", addr); !strings.Contains(stdout, "executions") {
		t.Errorf("a call without arguments prints %q", stdout)
	}
	if stdout, _ := ranWell(t, "call", "ping", "--addr", addr, "--validate-only"); !strings.Contains(stdout, "Nothing was run") {
		t.Errorf("--validate-only prints %q", stdout)
	}
	if n := up.Requests("/ping"); n != 1 {
		t.Errorf("%d requests, want the one that was not only validated", n)
	}

	for name, c := range map[string]struct {
		exit int
		args []string
		says string
	}{
		"the tool fails":       {1, []string{"get_order", `{"order_id":"A-9"}`}, `"code":"NOT_FOUND"`},
		"arguments are wrong":  {1, []string{"get_order", `{"order_id":7}`}, `"code":"INVALID_ARGS"`},
		"arguments no JSON":    {1, []string{"get_order", `{order_id: 7}`}, `"code":"INVALID_ARGS"`},
		"the tool is unknown":  {1, []string{"get_odrer"}, `Did you mean \"get_order\"?`},
		"the profile forbids":  {1, []string{"refund", `{"order_id":"A-7","cents":5}`, "--profile", "reader"}, `"code":"PERMISSION_DENIED"`},
		"the id is used up":    {1, []string{"refund", `{"order_id":"A-7","cents":6}`, "--id", "toolu_1", "--conversation", "c", "--turn", "1"}, `"code":"ID_REUSED"`},
		"the address is wrong": {2, []string{"ping", "--addr", "127.0.0.1:8470"}, "want tcp://host:port or unix:///path"},
		"nobody is there":      {3, []string{"ping", "--addr", "tcp://127.0.0.1:1"}, "no sidecar answers at tcp://127.0.0.1:1"},
		"no socket is there":   {3, []string{"ping", "--addr", "unix:///no/such/socket"}, "no sidecar answers at unix:///no/such/socket"},
		"no tool":              {2, nil, "usage: sidecall call TOOL"},
	} {
		args := append([]string{"call", "--addr", addr}, c.args...)
		code, stdout, stderr := harness.CLI(t, args...)
		if code != c.exit || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%s: exit code %d, want %d that says %q\n%s%s", name, code, c.exit, c.says, stdout, stderr)
		}
		if c.exit == 1 && stderr != "" {
			t.Errorf("%s: a tool failure is a result, but this is on stderr: %s", name, stderr)
		}
	}
}

// What an exec probe asks, of a sidecar that is ready, that has lost its store,
// and that is gone.
func TestCLIReady(t *testing.T) {
	t.Parallel()
	redis := redisserver.Start(t, redisserver.Options{})
	s := harness.Start(t, fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", redis.Addr))
	if out, _ := ranWell(t, "ready", "--config", s.Config); out != "ready: 1 tool\n" {
		t.Errorf("it prints %q", out)
	}
	redis.Kill()
	if code, out, stderr := harness.CLI(t, "ready", "--admin", s.Admin); code != 1 || !strings.HasPrefix(out, "store_down: 1 tool\nstore: ") || stderr != "" {
		t.Errorf("without its store: exit code %d\n%s%s", code, out, stderr)
	}
	s.Kill()
	if code, _, stderr := harness.CLI(t, "ready", "--admin", s.Admin); code != 1 || !strings.Contains(stderr, "no sidecar answers at "+s.Admin) {
		t.Errorf("gone: exit code %d\n%s", code, stderr)
	}
}

func TestCLIVersionAndUsage(t *testing.T) {
	t.Parallel()
	if text, _ := ranWell(t, "version"); !regexp.MustCompile(`^sidecall \S+ .*go1\.\d+.* \w+/\w+\n$`).MatchString(text) {
		t.Errorf("version prints %q", text)
	}
	text, _ := ranWell(t, "version", "--json")
	if v := parse[map[string]string](t, text); v["version"] == "" || v["go"] == "" || v["platform"] == "" {
		t.Errorf("version --json prints %s", text)
	}
	for _, command := range []string{"serve", "demo", "check", "tools", "call", "resolve", "ready", "version"} {
		if help, _ := ranWell(t, "help", command); !strings.Contains(help, "Usage:") || !strings.Contains(help, "sidecall "+command) {
			t.Errorf("help %s prints\n%s", command, help)
		}
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{`unknown command "serv"`, []string{"serv"}},
		{`unknown command "nonsense"`, []string{"nonsense", "--flag"}},
		{"unknown flag: --prot", []string{"serve", "--prot", "1"}},
		{"usage: sidecall check FILE", []string{"check"}},
		{"usage: sidecall version", []string{"version", "now"}},
		{"want debug, info, warn or error", []string{"serve", "--log-level", "loud"}},
		{"cannot read the config file", []string{"serve", "--config", "/no/such/file.yaml"}},
	} {
		code, stdout, stderr := harness.CLI(t, c.args...)
		if code != 2 || !strings.Contains(stderr, c.says) || stdout != "" {
			t.Errorf("sidecall %s: exit code %d, want 2 and only a message that says %q\n%s%s", strings.Join(c.args, " "), code, c.says, stdout, stderr)
		}
	}
}

func TestCLIDemoKeepsItsPromises(t *testing.T) {
	binary := harness.Binary(t)
	cmd := exec.CommandContext(t.Context(), binary, "demo")
	cmd.Dir = t.TempDir() // it needs nothing that is there
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
	text, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(text), "BROKEN") {
		t.Fatalf("demo: %v\n%s", err, text)
	}
	for _, scene := range []string{"throws", "Noise", "acknowledgement", "duplicate", "malformed", "invents", "megabytes", "crash"} {
		if !strings.Contains(string(text), scene) {
			t.Errorf("the demo shows nothing of %q", scene)
		}
	}
	if strings.Count(string(text), "kept") < 15 {
		t.Errorf("the demo kept only\n%s", text)
	}
}

// A demo of which only the beginning is read, as by head, leaves nothing behind.
func TestCLIDemoThatNobodyReadsToItsEnd(t *testing.T) {
	binary, dir := harness.Binary(t), harness.ShortDir(t)
	cmd := exec.CommandContext(t.Context(), binary, "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = out.Close() // as head does
	err = cmd.Wait()
	if left, _ := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, and there are left %v", err, left)
	}
}
