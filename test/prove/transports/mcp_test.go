//go:build prove

package transports

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// ledgerVariable makes the test binary an MCP server on stdin and stdout, whose
// ledger is the file that it names.
const ledgerVariable = "SIDECALL_PROVE_MCP_LEDGER"

func TestMain(m *testing.M) {
	if path := os.Getenv(ledgerVariable); path != "" {
		os.Exit(serveStdio(path))
	}
	if lane := os.Getenv(payerVariable); lane != "" {
		os.Exit(runPayer(lane))
	}
	if office := os.Getenv(officeVariable); office != "" {
		os.Exit(runOffice(office))
	}
	os.Exit(m.Run())
}

// startsOf is the ledger of how often the server of another ledger was started.
func startsOf(path string) string { return path + ".starts" }

// serveStdio runs until its input ends, or until a tool kills it.
func serveStdio(path string) int {
	starts, err := upstream.OpenLedger(startsOf(path))
	if err == nil {
		err = starts.Write("start")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ledger, err := upstream.OpenLedger(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server := mcpServer(func(name string, args mcpArgs) error {
		if err := ledger.Write(name + " " + args.Key); err != nil {
			return err
		}
		if args.Fault == "killed" && ledger.Executions(name+" "+args.Key) == 1 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	})
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

type mcpArgs struct {
	Key   string `json:"key"`
	Fault string `json:"fault"`
}

// mcpTools are the tools by effect. MCP has no idempotency keys.
var mcpTools = []string{act, put, look}

// mcpServer has one tool of each effect; execute is what they do.
func mcpServer(execute func(name string, args mcpArgs) error) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "prove", Version: "1"}, nil)
	for _, name := range append([]string{"warm"}, mcpTools...) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var args mcpArgs
				if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
					return nil, err
				}
				if name != "warm" {
					if err := execute(name, args); err != nil {
						return nil, err
					}
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
			})
	}
	return s
}

// mcpAttempts are those of one call.
const mcpAttempts = 3

func mcpConfig(server string) string {
	return fmt.Sprintf(`
store: {embedded: {path: ./sidecall.db}}
defaults: {attempt_timeout: 20s, retry: {max_attempts: %d, base: 1ms, max: 5ms}}
backends:
  shop:
    mcp: {%s}
    breaker: {failures: 1000000}
    effects: {act: non_idempotent, put: idempotent, look: read_only, warm: read_only}
`, mcpAttempts, server)
}

// front stands before a real streamable HTTP server and meets the first
// tools/call of each key with the fault that its arguments name.
type front struct {
	site *site
	t    *testing.T

	mu    sync.Mutex
	inner http.Handler
	calls map[string]int // by session
}

// nth counts the calls of a session, from 1.
func (f *front) nth(session string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if session == "" {
		return 1
	}
	f.calls[session]++
	return f.calls[session]
}

// forget makes the server forget its sessions, as a restart does.
func (f *front) forget() {
	server := mcpServer(func(name string, args mcpArgs) error { return f.site.ledger.Write(args.Key) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inner = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string  `json:"name"`
			Arguments mcpArgs `json:"arguments"`
		} `json:"params"`
	}
	_ = json.Unmarshal(body, &message) // what is no request goes on as it is
	f.mu.Lock()
	inner := f.inner
	f.mu.Unlock()
	if r.Header.Get("Last-Event-ID") != "" {
		http.Error(w, "no such stream", http.StatusBadRequest)
		return
	}
	if message.Method != "tools/call" {
		inner.ServeHTTP(w, r)
		return
	}
	args, nth := message.Params.Arguments, f.nth(r.Header.Get("Mcp-Session-Id"))
	if args.Key == "" || !f.site.arrives(args.Key) {
		inner.ServeHTTP(w, r)
		return
	}
	f.site.breaks(nth)
	f.breaks(w, r, inner, args.Fault, message.ID)
}

// mcpRefused are the faults that prove that nothing was done, by the protocol;
// mcpBroken those after which the tool has run.
var (
	mcpRefused = []string{"session-404", "forgotten"}
	mcpBroken  = []string{"closed", "headers-cut", "json-cut", "stream-cut", "stream-empty", "stream-lost", "202", "503", "html", "session-400"}
)

func (f *front) breaks(w http.ResponseWriter, r *http.Request, inner http.Handler, fault string, id json.RawMessage) {
	switch fault {
	case "session-404":
		http.Error(w, "session not found", http.StatusNotFound)
		f.forget()
		return
	case "forgotten":
		f.forget()
		f.mu.Lock()
		inner = f.inner
		f.mu.Unlock()
		inner.ServeHTTP(w, r)
		return
	}
	inner.ServeHTTP(httptest.NewRecorder(), r) // the tool runs and its answer is thrown away
	switch fault {
	case "session-lie":
		http.Error(w, "session not found", http.StatusNotFound)
		f.forget()
	case "stream-empty":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": nothing\n\n") // a client that left is not our concern, here and below
	case "stream-lost":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 1\nretry: 1\ndata:\n\n")
	case "202":
		w.WriteHeader(http.StatusAccepted)
	case "503":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "session-400": // a session of the handler's own, in its answer
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"checkout session closed after capture"}}`, id)
	case "html":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html>please log in")
	default:
		f.hijacked(w, map[string]string{
			"headers-cut": "HTTP/1.1 200 OK\r\nContent-Le",
			"json-cut":    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"jsonrpc\"",
			"stream-cut":  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 1000\r\n\r\ndata: {\"json",
		}[fault])
	}
}

// hijacked says something and closes the connection.
func (f *front) hijacked(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		f.t.Error(err)
		return
	}
	defer func(conn net.Conn) { _ = conn.Close() }(conn)
	_, _ = io.WriteString(conn, text)
}

// After each fault the session is opened again, which takes a second: so several
// sidecars share the rounds, each with a server of its own.
func TestMCPOverHTTP(t *testing.T) {
	t.Parallel()
	all := &audit{t: t, site: newSite()}
	lanes := make([]*audit, proof.Runs(2, 5))
	t.Run("lanes", func(t *testing.T) {
		for i := range lanes {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				lanes[i] = overMCP(t, all.site)
				lanes[i].meetsTheFaults(i, len(lanes))
			})
		}
	})
	for _, lane := range lanes {
		if lane != nil { // that could not be started was told
			all.violations += lane.violations
		}
	}
	if all.site.faults == 0 || all.site.reused < all.site.faults*9/10 {
		all.broken("of %d faults only %d met a session that was in use", all.site.faults, all.site.reused)
	}
	all.report("MCP streamable HTTP: answer lost, stream cut, session lost", "unknown once executed; a call of a lost session may be sent again, and runs once")
}

// overMCP is a sidecar in front of an MCP server of its own.
func overMCP(t *testing.T, s *site) *audit {
	t.Helper()
	f := &front{site: s, t: t, calls: map[string]int{}}
	f.forget()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	a := &audit{Sidecar: harness.Start(t, mcpConfig(fmt.Sprintf("url: %q, allow_private: true", server.URL))), t: t, site: s}
	harness.WaitFor(t, "the tools of the server", func() bool { return slices.Contains(a.Tools(), act) })
	return a
}

// meetsTheFaults is one of several lanes that share the rounds.
func (a *audit) meetsTheFaults(lane, lanes int) {
	a.t.Helper()
	for round := lane; round < proof.Runs(2, 20); round += lanes {
		for _, fault := range mcpBroken {
			for _, tool := range mcpTools {
				harness.WaitFor(a.t, "the session to be there", a.answers)
				c := newTrial(tool, fault, round)
				if res := a.makes(c); tool == act {
					a.unknown(c, res, 1)
				}
			}
		}
	}
	for round := lane; round < proof.Runs(1, 20); round += lanes {
		for _, fault := range mcpRefused {
			a.refusedThenSentAgain(newTrial(act, fault, round))
		}
	}
	if lane == 0 {
		a.believesTheLie()
	}
}

// refusedThenSentAgain makes a call that the server does not carry out, because
// it does not know the session, and the same call in the next session.
func (a *audit) refusedThenSentAgain(c trial) {
	a.t.Helper()
	harness.WaitFor(a.t, "the session to be there", a.answers)
	res := a.makes(c)
	if code, ran := res.GetError().GetCode(), a.site.ledger.Executions(c.key); res.GetIsError() && (code != "DEPENDENCY_UNAVAILABLE" || ran != 0) {
		a.broken("%s: %d executions, %s", c.key, ran, res.GetContent())
	}
	harness.WaitFor(a.t, "the next session to be there", a.answers)
	res = a.Call(a.request(c))
	// On a busy machine a retry comes before the session is known to be lost.
	if asked, ran := a.site.requests(c.key), a.site.ledger.Executions(c.key); res.GetIsError() || asked < 2 || asked > 1+mcpAttempts || ran != 1 {
		a.broken("%s in the next session: %d requests, %d executions: %s", c.key, asked, ran, res.GetContent())
	}
}

// believesTheLie makes a call that a server carries out and then says not to know
// the session of. That the same call runs again in the next session is documented.
func (a *audit) believesTheLie() {
	a.t.Helper()
	c := newTrial(act, "session-lie", 0)
	for range 2 {
		harness.WaitFor(a.t, "the session to be there", a.answers)
		a.Call(a.request(c))
	}
	a.control("a call of a session that the server denies", a.site.requests(c.key), a.site.ledger.Executions(c.key))
}

// A server on stdio that dies in the middle of a call, when the effect is on the
// disk.
func TestMCPOnStdio(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ledger")
	s := newSite()
	a := &audit{t: t, site: s, Sidecar: harness.Start(t, mcpConfig(fmt.Sprintf("command: [%q], env: {%s: %q}", self, ledgerVariable, path)))}
	usable := func() bool { return slices.Contains(a.Tools(), act) && a.answers() }
	// Few: a server that keeps dying is started after up to half a minute.
	for round := range proof.Runs(1, 5) {
		for _, tool := range mcpTools {
			harness.WaitFor(t, "the server to come back", usable)
			c, before := newTrial(tool, "killed", round), total(t, startsOf(path))
			res := a.Call(a.request(c))
			ran := counts(t, path)[tool+" "+c.key]
			if tool == act {
				again := a.Call(a.request(c))
				if code := res.GetError().GetCode(); code != "OUTCOME_UNKNOWN" || ran != 1 || !again.GetReplayed() || counts(t, path)[tool+" "+c.key] != 1 {
					a.broken("%s: %d executions, %s", c.key, ran, res.GetContent())
				}
			} else if ran < 1 || ran > a.attempts(c) {
				a.broken("%s: %d executions in %d attempts", c.key, ran, a.attempts(c))
			}
			harness.WaitFor(t, "the server to come back", usable)
			if total(t, startsOf(path)) == before {
				a.broken("%s: the server that was to be killed lives", c.key)
				continue
			}
			s.breaks(2) // the call before had been answered by that process
		}
	}
	a.report("MCP stdio: server killed in the middle of a call", fmt.Sprintf("%d executions, unknown once executed", total(t, path)))
}

// answers reports whether a call gets through.
func (a *audit) answers() bool {
	a.calls++
	return !a.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: fmt.Sprintf("warm-%d", a.calls), ToolName: "warm"}).GetIsError()
}

// counts reads the ledger that another process writes.
func counts(t *testing.T, path string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(text)) {
		entry, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		out[entry]++
	}
	return out
}

func total(t *testing.T, path string) int {
	t.Helper()
	n := 0
	for _, of := range counts(t, path) {
		n += of
	}
	return n
}
