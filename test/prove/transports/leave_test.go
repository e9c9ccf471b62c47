//go:build prove

package transports

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// What makes the test binary a tool that asks the office: a command, or an MCP
// server on stdin and stdout.
const (
	officeVariable = "SIDECALL_PROVE_OFFICE"
	asMCPVariable  = "SIDECALL_PROVE_OFFICE_MCP"
)

// office carries out what it is asked, and answers when it is told to.
type office struct {
	ledger *upstream.Ledger
	URL    string

	// abandoned counts the requests that were broken off.
	abandoned atomic.Int64

	mu    sync.Mutex
	doors map[string]chan struct{}
}

func openOffice(t *testing.T) *office {
	o := &office{ledger: upstream.NewLedger(), doors: map[string]chan struct{}{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.URL.Query().Get("key")
		door := o.door(key)
		// Until the body is read the server does not see that the client has gone.
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if err := o.ledger.Write(key); err != nil {
			t.Error(err)
		}
		select {
		case <-door:
			fmt.Fprint(w, "done ", key)
		case <-r.Context().Done():
			o.abandoned.Add(1)
		}
	}))
	o.URL = server.URL
	t.Cleanup(server.Close)
	return o
}

func (o *office) door(key string) chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.doors[key] == nil {
		o.doors[key] = make(chan struct{})
	}
	return o.doors[key]
}

// askOffice asks it, for a tool that is not HTTP itself.
func askOffice(ctx context.Context, office, key string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, office+"/?key="+url.QueryEscape(key), http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}

// officeMCP is an MCP server whose one tool asks the office. Like most, it ends
// its work when the client says that it wants it no more.
func officeMCP(office string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "office", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "tell", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var args mcpArgs
			if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
				return nil, err
			}
			text, err := askOffice(ctx, office, args.Key)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, err
		})
	return s
}

// runOffice is the test binary as a tool.
func runOffice(office string) int {
	var err error
	if os.Getenv(asMCPVariable) != "" {
		err = officeMCP(office).Run(context.Background(), &mcp.StdioTransport{})
	} else {
		var args mcpArgs
		var text string
		if err = json.NewDecoder(os.Stdin).Decode(&args); err == nil {
			text, err = askOffice(context.Background(), office, args.Key)
			fmt.Print(text)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (o *office) config(t *testing.T, store string) string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	remote := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return officeMCP(o.URL) }, nil))
	t.Cleanup(remote.Close)
	return store + fmt.Sprintf(`
defaults: {attempt_timeout: 5m, deadline: 10m}
backends:
  web: {http: {base_url: %[1]q, allow_private: true}, max_in_flight: 1000, breaker: {failures: 1000000}}
  run: {exec: {dir: ".", env: {%[2]s: %[1]q}}, max_in_flight: 1000}
  stdio: {mcp: {command: [%[4]q], env: {%[2]s: %[1]q, %[3]s: "1"}}, prefix: stdio_, trust: trusted, max_in_flight: 1000}
  remote: {mcp: {url: %[5]q, allow_private: true}, prefix: remote_, trust: trusted, max_in_flight: 1000}
tools:
  web_tell: {backend: web, http: {method: POST, path: /, query: {key: key}}}
  run_tell: {backend: run, exec: {argv: [%[4]q]}}
  web_undo: {backend: web, on_cancel: cancel, http: {method: POST, path: /, query: {key: key}}}
`, o.URL, officeVariable, asMCPVariable, self, remote.URL)
}

// undo is the tool whose attempts are broken off with their callers.
const undo = "web_undo"

// leaver is callers of one tool that leave in one way.
type leaver struct {
	*office
	t    *testing.T
	s    *harness.Sidecar
	tool string
	way  string
}

func (l leaver) request(n int) (req *sidecallv1.ExecuteToolRequest, key string) {
	key = fmt.Sprintf("%s %s %d", l.tool, l.way, n)
	return &sidecallv1.ExecuteToolRequest{
		ToolUseId: key, ToolName: l.tool, ConversationId: "leave", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, key),
	}, key
}

// all has n callers leave while their calls are at work, sends each id again,
// every other one while the first is still at work, and returns how many did not
// get the first one's result.
func (l leaver) all(n int) (lost []string) {
	l.t.Helper()
	proxy := faultproxy.Start(l.t, l.s.Addr)
	conn, err := grpc.NewClient("passthrough:///"+proxy.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(l.t.Context())
	if l.way == "deadline" {
		ctx, cancel = context.WithTimeout(l.t.Context(), 3*time.Second)
	}
	defer cancel()
	var first, again errgroup.Group
	for i := range n { // each is at work when its caller leaves
		first.Go(func() error {
			req, key := l.request(i)
			res, err := sidecallv1.NewToolServiceClient(conn).ExecuteTool(ctx, req)
			began := l.ledger.Executions(key) > 0
			if err == nil && began && (l.way != "deadline" || res.GetError().GetCode() != "IN_PROGRESS") {
				return fmt.Errorf("%s: who left was told %v", key, res)
			}
			return nil
		})
	}
	// Each is at work when its caller leaves; of those that have a deadline, some.
	for i := range n {
		if _, key := l.request(i); l.way != "deadline" {
			l.await(key)
		}
	}
	switch l.way {
	case "connection broken":
		proxy.Cut()
		proxy.Refuse(true)
	case "cancelled":
		cancel()
	}
	if err := first.Wait(); err != nil {
		l.t.Error(err)
	}
	if _, key := l.request(0); l.way == "deadline" {
		l.await(key)
	}
	if l.tool == undo {
		harness.WaitFor(l.t, "the attempts to be broken off", func() bool { return l.abandoned.Load() >= int64(n) })
	}
	var mu sync.Mutex
	for i := range n {
		req, key := l.request(i)
		if i%2 == 0 {
			close(l.door(key))
		}
		again.Go(func() error {
			ctx, cancel := context.WithTimeout(l.t.Context(), patience)
			defer cancel()
			res, err := l.s.Client.ExecuteTool(ctx, req)
			if ran := l.ledger.Executions(key); err != nil || res.GetContent() != "done "+key || ran != 1 {
				mu.Lock()
				defer mu.Unlock()
				lost = append(lost, fmt.Sprintf("%s: %d executions, %v %v", key, ran, res, err))
			}
			return nil
		})
	}
	for i := range n {
		if _, key := l.request(i); i%2 == 1 {
			close(l.door(key))
		}
	}
	if err := again.Wait(); err != nil {
		l.t.Error(err)
	}
	return lost
}

// await waits until a call is at work.
func (l leaver) await(key string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	if err := l.ledger.Await(ctx, key, 1); err != nil {
		l.t.Fatalf("%s has not come to the tool: %v\n%s", key, err, l.s.Log())
	}
}

// Callers leave while their effects are at work: the effects end, and whoever
// sends the ids again gets their results.
func TestCallersThatLeave(t *testing.T) {
	t.Parallel()
	for store, text := range map[string]string{
		"embedded": "store: {embedded: {path: ./sidecall.db}}\n",
		"redis":    fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", redisserver.Start(t, redisserver.Options{}).Addr),
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			o := openOffice(t)
			s := harness.Start(t, o.config(t, text))
			runs, violations := 0, 0
			for _, tool := range []string{"web_tell", "run_tell", "stdio_tell", "remote_tell"} {
				harness.WaitFor(t, tool, func() bool { return strings.Contains(strings.Join(s.Tools(), " "), tool) })
				for _, way := range []string{"connection broken", "cancelled", "deadline"} {
					n := proof.Runs(10, 100)
					lost := leaver{o, t, s, tool, way}.all(n)
					runs, violations = runs+n, violations+len(lost)
					if len(lost) > 0 {
						t.Errorf("%d of %d lost: %s", len(lost), n, lost[0])
					}
				}
			}
			control := leaver{o, t, s, undo, "cancelled"}.all(10)
			if len(control) == 0 {
				t.Error("where an attempt is broken off with its caller no result was lost: nothing is shown")
			}
			proof.Report(t, proof.Row{
				Fault: "callers leave calls at work, and send them again", Store: store, Runs: runs, Violations: violations,
				Figure: fmt.Sprintf("http, exec, MCP on stdio and HTTP; connection broken, cancelled, deadline; %d executions; control with on_cancel: cancel: %d of 10 results lost",
					runs, len(control)),
			})
		})
	}
}
