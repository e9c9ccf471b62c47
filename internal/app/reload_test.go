package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/internal/config"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/transcript"
)

// changing is a sidecar whose config changes under it, and the API that it calls.
type changing struct {
	*Sidecar

	t      *testing.T
	client sidecallv1.ToolServiceClient
	log    *transcript.Transcript
	head   string // listen, store: what does not change
	url    string
	// requests arrive at /held and are answered when held is closed.
	held    chan struct{}
	arrived chan string
	// opened and open are connections to the API.
	opened, open atomic.Int64
}

// newChanging starts a sidecar of a config, in which URL is the address of the API. It
// follows what is written on a paper, if there is one.
func newChanging(t *testing.T, text string, on ...*paper) *changing {
	t.Helper()
	c := &changing{t: t, log: &transcript.Transcript{}, held: make(chan struct{}), arrived: make(chan string, 100)}
	api := httptest.NewUnstartedServer(c)
	api.Config.ConnState = c.counted
	api.Start()
	t.Cleanup(api.Close)
	c.url = api.URL
	socket := filepath.Join(harness.ShortDir(t), "s.sock")
	c.head = fmt.Sprintf("listen: [%q]\nadmin: off\nidentity: {require: []}\nstore: {memory: {}}\n", "unix://"+socket)
	options := Options{Log: slog.NewTextHandler(c.log, nil), Version: "test"}
	if len(on) > 0 {
		options.Source = on[0]
	}
	c.Sidecar = started(t, c.config(text), options)
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c.client = dialled(t, socket)
	return c
}

// ServeHTTP answers with the path, and holds requests to /held.
func (c *changing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	c.arrived <- r.URL.Path
	if r.URL.Path == "/held" {
		<-c.held
	}
	_, _ = fmt.Fprintf(w, `{"path":%q,"token":%q}`, r.URL.Path, r.Header.Get("Token"))
}

func (c *changing) counted(_ net.Conn, state http.ConnState) {
	switch state { //nolint:exhaustive // of the others nothing is counted
	case http.StateNew:
		c.opened.Add(1)
		c.open.Add(1)
	case http.StateClosed:
		c.open.Add(-1)
	}
}

func (c *changing) config(text string) *config.Config {
	c.t.Helper()
	return parsed(c.t, c.text(text))
}

func (c *changing) text(text string) string { return c.head + strings.ReplaceAll(text, "URL", c.url) }

// take has a config take over.
func (c *changing) take(text string) {
	c.t.Helper()
	if err := c.succession.take(c.t.Context(), c.config(text), func(string) {}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *changing) call(id, name string) *sidecallv1.ExecuteToolResponse {
	c.t.Helper()
	res, err := c.client.ExecuteTool(context.Background(), &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: name, ArgumentsJson: "{}"})
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// begin makes a call, which arrives at the API and stays there.
func (c *changing) begin(id, name string) <-chan *sidecallv1.ExecuteToolResponse {
	c.t.Helper()
	answered := make(chan *sidecallv1.ExecuteToolResponse, 1)
	go func() { answered <- c.call(id, name) }()
	<-c.arrived
	return answered
}

func (c *changing) tools() []string {
	c.t.Helper()
	listed, err := c.client.ListTools(c.t.Context(), &sidecallv1.ListToolsRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, tool := range listed.GetTools() {
		names = append(names, tool.GetName())
	}
	return names
}

const twoTools = `
backends: {web: {http: {base_url: "URL", allow_private: true}}}
tools:
  held: {backend: web, http: {method: POST, path: /held}}
  act: {backend: web, http: {method: POST, path: /act}}
`

// edit is a text with other words in it.
func edit(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("no %q in\n%s", pairs[i], text)
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

func TestAnotherConfigTakesOver(t *testing.T) {
	c := newChanging(t, twoTools)
	if res := c.call("1", "act"); res.GetContent() != `{"path":"/act","token":""}` {
		t.Fatal(res)
	}
	c.take(edit(t, twoTools, "act:", "do:", "path: /act", "path: /do") + "profiles: {small: {tools: [do], max_tool_calls: 1}}\ndefault_profile: small\nlimits: {max_batch: 1}\n")
	if got := c.tools(); !slices.Equal(got, []string{"do", "read_output"}) {
		t.Errorf("the tools are %q", got)
	}
	budgeted := &sidecallv1.ExecuteToolRequest{ToolUseId: "2", ConversationId: "c", PromptId: "p", ToolName: "do", ArgumentsJson: "{}"}
	if res, err := c.client.ExecuteTool(t.Context(), budgeted); res.GetContent() != `{"path":"/do","token":""}` || res.GetBudget().GetToolCallsLimit() != 1 {
		t.Errorf("a tool of the new config: %v, %v", res, err)
	}
	if res := c.call("3", "held"); res.GetError().GetCode() != "PERMISSION_DENIED" {
		t.Errorf("what the new profile does not have: %v", res)
	}
	if res := c.call("4", "act"); res.GetError().GetCode() != "UNKNOWN_TOOL" {
		t.Errorf("what the new config does not have: %v", res)
	}
	if res := c.call("1", "act"); !res.GetReplayed() || res.GetIsError() {
		t.Errorf("a known id: %v", res)
	}
	two := []*sidecallv1.ExecuteToolRequest{{ToolUseId: "5", ToolName: "do"}, {ToolUseId: "6", ToolName: "do"}}
	if _, err := c.client.ExecuteTools(t.Context(), &sidecallv1.ExecuteToolsRequest{Calls: two}); err == nil {
		t.Error("a batch of two, where one is allowed")
	}
	if n := c.opened.Load(); n != 1 {
		t.Errorf("a backend that did not change has %d connections", n)
	}
	if log := c.log.String(); !strings.Contains(log, `msg="config taken over" tools=3 backends=1 backends_kept=1`) {
		t.Errorf("the log does not say so:\n%s", log)
	}
}

// A call has what it began with until its end, whatever happens to that meanwhile; what
// it had is closed then.
func TestACallEndsAsItBegan(t *testing.T) {
	for name, change := range map[string][]string{
		"the tool is removed":           {"  held: {backend: web, http: {method: POST, path: /held}}\n", ""},
		"the tool is renamed":           {"  held:", "  other:"},
		"its effect is another":         {"held: {backend: web,", "held: {backend: web, effect: idempotent,"},
		"its request is another":        {"path: /held", "path: /elsewhere"},
		"its output is cut":             {"held: {backend: web,", "held: {backend: web, max_output_chars: 1,"},
		"its result is an error":        {"held: {backend: web,", `held: {backend: web, errors: [{when: "true", code: CONFLICT}],`},
		"its backend is another":        {`base_url: "URL"`, `base_url: "http://127.0.0.1:1"`},
		"its backend has other headers": {`base_url: "URL"`, `base_url: "URL", headers: {Token: second}`},
		"its backend has other guards":  {"web: {http", "web: {max_in_flight: 1, breaker: {failures: 1}, http"},
		"its backend is renamed":        {"{web: {http", "{net: {http", "backend: web", "backend: net"},
		"the profile is narrowed":       {"tools:\n", "profiles: {p: {tools: [act]}}\ndefault_profile: p\ntools:\n"},
		"nothing":                       {"held", "held"},
		"everything is of another kind": {"http: {base_url: \"URL\", allow_private: true}", "exec: {env: [PATH]}", "http: {method: POST, path: /held}", "exec: {argv: [cat]}", "http: {method: POST, path: /act}", "exec: {argv: [cat]}"},
		"it asks for an argument":       {"held: {backend: web,", "held: {backend: web, input_schema: {type: object, properties: {k: {type: string}}, required: [k]},"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newChanging(t, twoTools)
			before := c.parts.generation.Load()
			answered := c.begin("1", "held")
			c.take(edit(t, twoTools, change...))
			duplicate := make(chan *sidecallv1.ExecuteToolResponse, 1)
			go func() { duplicate <- c.call("1", "held") }()
			if len(c.succession.slots) != 1 {
				t.Error("the generation before is gone, and a call has it")
			}
			close(c.held)
			res := <-answered
			if res.GetContent() != `{"path":"/held","token":""}` || res.GetIsError() || !res.GetRecorded() || res.GetReplayed() {
				t.Errorf("it ended as %v", res)
			}
			if again := <-duplicate; again.GetContent() != res.GetContent() {
				t.Errorf("its duplicate under the new config: %v", again)
			}
			if again := c.call("1", "held"); !again.GetReplayed() || again.GetContent() != res.GetContent() {
				t.Errorf("its replay under the new config: %v", again)
			}
			c.succession.retiring.Wait()
			if name != "nothing" && before.hosts["web"] != nil && before.hosts["web"].users.Load() == 0 {
				harness.WaitFor(t, "the connections of a backend that nobody has", func() bool { return c.open.Load() == 0 })
			}
		})
	}
}

// The first promise is stronger: what the operator has said must not be repeated is not,
// not even by a call that began when he had not. What is sent again is what was sent.
func TestARetryHeedsTheStricterOfBothConfigs(t *testing.T) {
	text := edit(t, twoTools, "act: {backend: web, http: {method: POST, path: /act}", "cut: {backend: web, effect: idempotent, retry: {max_attempts: 5, base: 1ms}, http: {method: POST, path: /cut}")
	for effect, want := range map[string]string{"idempotent": "", "non_idempotent": "OUTCOME_UNKNOWN"} {
		t.Run(effect, func(t *testing.T) {
			var requests atomic.Int64
			first, taken := make(chan struct{}), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/cut" {
					t.Errorf("a try went to %s, which another config says", r.URL.Path)
				}
				if requests.Add(1) > 1 {
					return
				}
				close(first)
				<-taken
				panic(http.ErrAbortHandler) // after the request was read: who knows
			}))
			defer server.Close()
			c := newChanging(t, strings.ReplaceAll(text, "URL", server.URL))
			answered := make(chan *sidecallv1.ExecuteToolResponse, 1)
			go func() { answered <- c.call("1", "cut") }()
			<-first
			c.take(strings.ReplaceAll(edit(t, text, "effect: idempotent", "effect: "+effect, "/cut", "/elsewhere"), "URL", server.URL))
			close(taken)
			res := <-answered
			if res.GetError().GetCode() != want || requests.Load() != map[bool]int64{true: 1, false: 2}[want != ""] {
				t.Errorf("%d requests, %v", requests.Load(), res)
			}
		})
	}
}

// What the file says the same of keeps what it knows: connections, breakers, places.
func TestABackendThatDidNotChangeIsKept(t *testing.T) {
	text := edit(t, twoTools, "web: {", "web: {breaker: {failures: 2}, max_in_flight: 7, ")
	for name, step := range map[string]struct {
		change       []string
		keeps, knows bool
	}{
		"nothing":         {[]string{"web", "web"}, true, true},
		"another tool":    {[]string{"act:", "extra: {backend: web, http: {method: POST, path: /x}}\n  act:"}, true, true},
		"its own request": {[]string{"path: /act", "path: /do"}, true, true},
		"a default":       {[]string{"tools:\n", "defaults: {deadline: 5s}\ntools:\n"}, true, true},
		"a limit":         {[]string{"tools:\n", "limits: {keep_output_bytes: 1MiB}\ntools:\n"}, true, true},
		"its guards":      {[]string{"max_in_flight: 7", "max_in_flight: 8"}, true, false},
		"its connections": {[]string{"allow_private: true", "allow_private: true, idle_timeout: 3s"}, false, false},
		"a secret of it":  {[]string{"allow_private: true", "allow_private: true, headers: {Token: abc}"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChanging(t, text)
			c.call("1", "act")
			before, _ := c.parts.catalog.Snapshot().Lookup("act")
			for range 2 {
				done, err := before.Breaker.Allow()
				if err != nil {
					t.Fatal(err)
				}
				done(breaker.Failure)
			}
			c.take(edit(t, text, step.change...))
			if res := c.call("2", "act"); (res.GetError().GetCode() == "CIRCUIT_OPEN") != step.knows {
				t.Errorf("the breaker is still open: want %v: %v", step.knows, res)
			}
			after, _ := c.parts.catalog.Snapshot().Lookup("act")
			if (after.Slots == before.Slots) != step.knows {
				t.Errorf("the places are the same: want %v", step.knows)
			}
			if n := c.opened.Load(); step.knows && n != 1 || !step.keeps && n != 2 {
				t.Errorf("%d connections", n)
			}
			c.succession.retiring.Wait()
			if !step.keeps {
				harness.WaitFor(t, "the end of the connection before", func() bool { return c.open.Load() == 1 })
			}
		})
	}
}

// A config that is wrong changes nothing, whatever of it is right.
func TestAConfigThatIsWrongIsRefusedAsAWhole(t *testing.T) {
	c := newChanging(t, twoTools)
	was := c.parts.generation.Load()
	for name, step := range map[string]struct {
		change []string
		at     []string // of line 4 and those behind it, without the file
	}{
		"a schema":            {[]string{"act: {", "act: {input_schema: {type: 7}, "}, []string{"test.yaml:9:30: tools.act.input_schema.type"}},
		"a certificate":       {[]string{"allow_private: true", "allow_private: true, tls: {ca: /not/there}"}, []string{"test.yaml:6:"}},
		"an address":          {[]string{"tools:\n", "operator: unix:///tmp/other.sock\ntools:\n"}, []string{"test.yaml:7:11: operator: this is not what the sidecar was started with, and needs a restart"}},
		"all that is fixed":   {[]string{"tools:\n", "lease: 40s\nretention: 48h\nlimits: {max_in_flight: 1, max_waiting: 2, max_batch: 3}\ntools:\n"}, []string{"test.yaml:7:8: lease: ", "test.yaml:8:12: retention: ", "test.yaml:9:25: limits.max_in_flight: ", "test.yaml:9:41: limits.max_waiting: "}},
		"and something right": {[]string{"act:", "new:", "tools:\n", "lease: 40s\ntools:\n"}, []string{"test.yaml:7:8: lease: "}},
	} {
		err := c.succession.take(t.Context(), c.config(edit(t, twoTools, step.change...)), func(string) {})
		problems, ok := errors.AsType[config.Problems](err)
		if !ok || len(problems) != len(step.at) {
			t.Errorf("%s: %v, want %d problems", name, err, len(step.at))
			continue
		}
		for i, at := range step.at {
			if !strings.HasPrefix(problems[i].Error(), at) {
				t.Errorf("%s: %v, want %s", name, problems[i], at)
			}
		}
		if c.parts.generation.Load() != was {
			t.Errorf("%s: another generation serves", name)
		}
	}
	if res := c.call("1", "act"); res.GetIsError() || was.hosts["web"].users.Load() != 1 {
		t.Errorf("after them: %v, and %d generations have the backend", res, was.hosts["web"].users.Load())
	}
}

// Whoever adds a key has to say whether it can change while the sidecar runs.
func TestEveryKeyIsReloadedOrNeedsARestart(t *testing.T) {
	fixed := []string{"listen", "admin", "admin_hosts", "http", "operator", "instance", "store", "journal", "lease", "retention", "receipts", "conversations", "notify"}
	limits := []string{"limits.max_request_bytes", "limits.max_held_bytes", "limits.max_in_flight", "limits.max_waiting"}
	known := slices.Concat(fixed, limits, reloaded)
	var keys []string
	for field := range reflect.TypeFor[config.Config]().Fields() {
		if key := field.Tag.Get("yaml"); key != "" && key != "limits" {
			keys = append(keys, key)
		}
	}
	for field := range reflect.TypeFor[config.Limits]().Fields() {
		keys = append(keys, "limits."+field.Tag.Get("yaml"))
	}
	slices.Sort(keys)
	slices.Sort(known)
	if !slices.Equal(keys, known) {
		t.Errorf("the keys are\n%q, of which is known what a reload does with\n%q", keys, known)
	}
	page, err := os.ReadFile("../../docs/reload.md")
	if err != nil {
		t.Fatal(err)
	}
	_, said, _ := strings.Cut(string(page), "## What needs a restart")
	said, _, _ = strings.Cut(said, "Everything else")
	for _, key := range slices.Concat(fixed, limits) {
		if !strings.Contains(said, "`"+key+"`") {
			t.Errorf("docs/reload.md does not say that %s needs a restart", key)
		}
	}
}

// office is an MCP server over HTTP that counts its sessions.
type office struct {
	url      string
	sessions atomic.Int64
	server   *mcp.Server
	// open lets it answer.
	open func()
}

// newOffice starts one that answers at once, or when its open is called.
func newOffice(t *testing.T, atOnce bool, tools ...string) *office {
	t.Helper()
	o := &office{server: mcp.NewServer(&mcp.Implementation{Name: "office", Version: "1"}, nil)}
	for _, name := range tools {
		o.add(name)
	}
	may := make(chan struct{})
	o.open = sync.OnceFunc(func() { close(may) })
	if atOnce {
		o.open()
	}
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return o.server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte(`"initialize"`)) {
			o.sessions.Add(1)
			select {
			case <-may:
			case <-r.Context().Done():
				return
			}
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		o.open()
		web.CloseClientConnections()
		web.Close()
	})
	o.url = web.URL
	return o
}

func (o *office) add(name string) {
	mcp.AddTool(o.server, &mcp.Tool{Name: name, Description: "Does " + name + "."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name}}}, nil, nil
	})
}

// withOffice is a config with an MCP server.
func withOffice(o *office, more string) string {
	return fmt.Sprintf("backends: {office: {%s mcp: {url: %q, allow_private: true}}}\n", more, o.url)
}

func TestAnMCPServerIsKeptAndItsToolsAreReadAnew(t *testing.T) {
	o := newOffice(t, true, "read", "write")
	c := newChanging(t, withOffice(o, ""))
	harness.WaitFor(t, "its tools", func() bool { return len(c.tools()) == 3 })
	for _, step := range []struct {
		more  string
		tools []string
	}{
		{"", []string{"read", "read_output", "write"}},
		{"prefix: o_, ", []string{"o_read", "o_write", "read_output"}},
		{"exclude: [write], effects: {read: read_only}, ", []string{"read", "read_output"}},
		{"pin: false, max_in_flight: 3, ", []string{"read", "read_output", "write"}},
	} {
		c.take(withOffice(o, step.more))
		if got := c.tools(); !slices.Equal(got, step.tools) {
			t.Errorf("%s: the tools are %q", step.more, got)
		}
		name := step.tools[0]
		if res := c.call("call "+step.more, name); res.GetContent() != strings.TrimPrefix(name, "o_") && !strings.Contains(res.GetContent(), "read") {
			t.Errorf("%s: %v", step.more, res)
		}
	}
	o.add("move") // what it says from now on, the last config hears
	harness.WaitFor(t, "its new tool", func() bool { return slices.Contains(c.tools(), "move") })
	if n := o.sessions.Load(); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// What the agents have stays until what is to come is there; what is wished for in the
// meantime is what counts.
func TestAConfigWaitsForItsNewBackends(t *testing.T) {
	old, slow := newOffice(t, true, "read"), newOffice(t, false, "write")
	c := newChanging(t, withOffice(old, ""))
	harness.WaitFor(t, "its tools", func() bool { return len(c.tools()) == 2 })
	ctx, overtake := context.WithCancel(t.Context())
	waits, ended := make(chan string, 1), make(chan error, 1)
	begin := func(ctx context.Context, text string) {
		cfg := c.config(text)
		go func() { ended <- c.succession.take(ctx, cfg, func(why string) { waits <- why }) }()
	}
	begin(ctx, withOffice(slow, ""))
	if why := <-waits; !strings.Contains(why, "backend office has not said yet") {
		t.Errorf("it waits for %s", why)
	}
	if got := c.tools(); !slices.Equal(got, []string{"read", "read_output"}) {
		t.Errorf("meanwhile the tools are %q", got)
	}
	overtake()
	if err := <-ended; !errors.Is(err, errOvertaken) {
		t.Errorf("overtaken: %v", err)
	}
	c.take(withOffice(slow, "optional: true, ")) // for which nobody waits
	if got := c.tools(); !slices.Equal(got, []string{"read_output"}) {
		t.Errorf("without waiting the tools are %q", got)
	}
	c.take(withOffice(old, ""))
	begin(t.Context(), withOffice(slow, ""))
	<-waits
	slow.open()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := c.tools(); !slices.Equal(got, []string{"read_output", "write"}) {
		t.Errorf("the tools are %q", got)
	}
}

// Each config that a call holds is held whole; of those there are only so many.
func TestConfigsThatCallsHoldAreBounded(t *testing.T) {
	c := newChanging(t, twoTools)
	var answers []<-chan *sidecallv1.ExecuteToolResponse
	for n := range mostRetiring {
		answers = append(answers, c.begin(fmt.Sprint(n), "held"))
		c.take(twoTools)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := c.succession.take(ctx, c.config(twoTools), func(why string) {
		if !strings.Contains(why, "16 configs") {
			t.Errorf("it waits: %s", why)
		}
		cancel()
	})
	if !errors.Is(err, errOvertaken) {
		t.Errorf("one more: %v", err)
	}
	close(c.held)
	c.take(twoTools)
	for _, answered := range answers {
		if res := <-answered; res.GetIsError() {
			t.Error(res)
		}
	}
	c.succession.retiring.Wait()
	if n := c.parts.generation.Load().hosts["web"].users.Load(); n != 1 || len(c.succession.slots) != 0 {
		t.Errorf("%d generations have the backend, %d are retiring", n, len(c.succession.slots))
	}
}

// What an operator has written into the file of pins holds from the next reload on.
func TestPinsAreReadAnew(t *testing.T) {
	o := newOffice(t, true, "read", "write")
	file := filepath.Join(t.TempDir(), "p.pins")
	if err := os.WriteFile(file, []byte("office read sha256:"+strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("pins: {path: %q}\n", file) + withOffice(o, "pin: true, ")
	c := newChanging(t, text)
	harness.WaitFor(t, "its tools", func() bool { return slices.Equal(c.tools(), []string{"read_output", "write"}) })
	held, _ := c.parts.catalog.Snapshot().Lookup("write")
	if err := os.Remove(file); err != nil { // the operator accepts
		t.Fatal(err)
	}
	c.take(edit(t, text, "pin: true, ", "pin: true, exclude: [write], "))
	if got := c.tools(); !slices.Equal(got, []string{"read", "read_output"}) {
		t.Errorf("the tools are %q", got)
	}
	if why := held.Withdrawal.Why(); why != "" {
		t.Errorf("a call of a tool that is just not offered any more is told: %s", why)
	}
	o.server.RemoveTools("write")
	harness.WaitFor(t, "it to be told that its server has it no more", func() bool { return held.Withdrawal.Why() != "" })
}

// The words of a process are hidden by the secrets of today, those of other backends too.
func TestTheSecretsOfTodayAreHidden(t *testing.T) {
	o := newOffice(t, true, "read")
	c := newChanging(t, withOffice(o, ""))
	harness.WaitFor(t, "its tools", func() bool { return len(c.tools()) == 2 })
	logger := c.parts.generation.Load().hosts["office"].logger.With("backend", "office") // as it was started with
	c.take(edit(t, withOffice(o, ""), "}}}\n", "}}, web: {http: {base_url: \"URL\", headers: {Token: n3w-5ecret}}}}\n"))
	logger.Info("it says n3w-5ecret")
	if log := c.log.String(); strings.Contains(log, "n3w-5ecret") || !strings.Contains(log, "it says (redacted)") {
		t.Errorf("the log says\n%s", log)
	}
}

// A secret that was replaced is not shown either: it may still be valid, and is kept in more places than the config.
func TestTheSecretsOfYesterdayAreHidden(t *testing.T) {
	const text = "backends:\n  web: {http: {base_url: \"URL\", allow_private: true, headers: {Token: KEY}}}\n  sh: {exec: {env: [PATH]}}\n" +
		"tools: {read: {backend: sh, effect: read_only, exec: {argv: [echo, the log has 0ld-5ecret and n3w-5ecret]}}}\n"
	c := newChanging(t, edit(t, text, "KEY", "0ld-5ecret"))
	for _, key := range []string{"n3w-5ecret", "an0ther-5ecret"} {
		c.take(edit(t, text, "KEY", key))
	}
	if said := c.call("1", "read").GetContent(); said != "the log has (redacted) and (redacted)\n" && said != "the log has (redacted) and (redacted)" {
		t.Errorf("%q", said)
	}
	many := make([]string, 2*maxFormer)
	for i := range many {
		many[i] = fmt.Sprint("former-", i)
	}
	if kept := withFormer([]string{"now"}, &generation{known: many}); len(kept) != maxFormer+1 || kept[1] != "former-0" {
		t.Errorf("%d are kept, from %q on", len(kept), kept[1])
	}
}
