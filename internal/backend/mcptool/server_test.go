package mcptool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.uber.org/goleak"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// The test binary is its own stdio server when this is set: the mode.
const modeVariable = "MCPTOOL_TEST_SERVER"

// ledgerVariable names the file that the tools write what they did to.
const ledgerVariable = "MCPTOOL_TEST_LEDGER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		serve(mode)
		return
	}
	// As telemetry.Start does by default.
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	goleak.VerifyTestMain(m,
		// The other side: sessions that a test made the server forget.
		goleak.IgnoreAnyFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read"))
}

// serve is a stdio server.
func serve(mode string) {
	switch mode {
	case "plain":
	case "banner":
		fmt.Println("Welcome to the test server!")
		fmt.Println(`{"level":"info","msg":"a log line in JSON"}`)
		fmt.Println("[1, 2")
		fmt.Print("no newline ")
	case "slow start":
		time.Sleep(300 * time.Millisecond)
	case "exit at start":
		fmt.Fprintln(os.Stderr, "cannot start: no licence")
		os.Exit(3)
	case "hang":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "deaf":
		// It answers the handshake and the list, then reads nothing more.
		deaf()
	case "asking":
		asking()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	server := newServer(ledger{path: os.Getenv(ledgerVariable)})
	if mode == "asking back" {
		asksBack(server)
	}
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
	if mode == "stubborn" {
		select {}
	}
}

// asking asks a lot, reads no answer, and writes down that it is done.
func asking() {
	introduce()
	out := bufio.NewWriter(os.Stdout)
	for i := range 20_000 {
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":"s%d","method":"ping"}`+"\n", i)
		fmt.Fprintln(out, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	}
	_ = out.Flush() // whoever closed the pipe does not wait for what the ledger says
	ledger{path: os.Getenv(ledgerVariable)}.write("asked")
	time.Sleep(time.Hour)
}

// deaf answers two requests by hand and then sleeps.
func deaf() {
	introduce()
	time.Sleep(time.Hour)
}

// introduce answers the handshake and the request for the list of tools.
func introduce() {
	in := bufio.NewScanner(os.Stdin)
	answers := []string{
		`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"deaf","version":"1"}}`,
		`{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`,
	}
	for len(answers) > 0 && in.Scan() {
		var req struct {
			ID *int `json:"id"`
		}
		if json.Unmarshal(in.Bytes(), &req) != nil || req.ID == nil {
			continue
		}
		fmt.Printf("{\"result\":%s,\"jsonrpc\":\"2.0\",\"id\":%d}\n", answers[0], *req.ID)
		answers = answers[1:]
	}
}

// ledger counts what the tools did, across processes.
type ledger struct {
	path string
	stop chan struct{} // ends tools that wait; nil for never
}

func (l ledger) write(entry string) {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(entry + "\n"); err != nil {
		panic(err)
	}
}

func (l ledger) count(entry string) int {
	data, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		panic(err)
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		if line == entry+"\n" {
			n++
		}
	}
	return n
}

func newLedger(t *testing.T) ledger {
	t.Helper()
	return ledger{t.TempDir() + "/ledger", make(chan struct{})}
}

// waitFor waits until something is so.
func waitFor(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// newServer is a server whose tools do one odd thing each.
func newServer(l ledger) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ServerOptions{PageSize: 6})
	type handler = func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error)
	add := func(name string, h handler) {
		s.AddTool(&mcp.Tool{Name: name, Description: "the tool " + name, InputSchema: json.RawMessage(`{"type":"object"}`)}, h)
	}
	yes := true
	s.AddTool(&mcp.Tool{Name: "echo", Title: "Echo", InputSchema: json.RawMessage(`{"type":"object","properties":{"z":{"maximum":9007199254740993},"a":{}}}`),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &yes}},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text(string(req.Params.Arguments)), nil
		})
	add("meta", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		data, err := json.Marshal(req.Params.Meta)
		return text(string(data)), err
	})
	add("pay", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		l.write("paid")
		return text("paid"), nil
	})
	add("pay and exit", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		l.write("paid")
		os.Exit(4)
		return nil, nil
	})
	add("panic", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		l.write("panicking")
		panic("boom")
	})
	add("wait", func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		l.write("waiting")
		select {
		case <-ctx.Done():
		case <-l.stop:
		}
		l.write("cancelled")
		return nil, context.Canceled
	})
	add("progress", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i, message := range []string{"", "half way"} {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: 2, Message: message})
			if err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	})
	add("fail", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := text("the printer is on fire")
		r.IsError = true
		return r, nil
	})
	add("broken", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		l.write("broken")
		return nil, &jsonrpc.Error{Code: -32603, Message: "database is gone"}
	})
	add("picky", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "x must be even"}
	})
	add("pay and lose", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		l.write("paid")
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "not found"}
	})
	add("later", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		l.write("begun")
		return text("never said"), nil
	})
	s.AddReceivingMiddleware(tasks)
	add("structured", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"z":9007199254740993,"a":1.50}`), Content: []mcp.Content{}}, nil
	})
	add("media", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		size := int64(7)
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "one"},
			&mcp.ImageContent{Data: []byte("\x89PNG"), MIMEType: "image/png"},
			&mcp.AudioContent{Data: []byte("RIFF"), MIMEType: "audio/wav"},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a.txt", MIMEType: "text/plain", Text: "inside"}},
			&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///a.bin", Blob: []byte{1, 2}}},
			&mcp.ResourceLink{URI: "file:///b.txt", Name: "b", Size: &size},
			&mcp.TextContent{Text: "two"},
		}}, nil
	})
	add("big", func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ Bytes int }
		if err := json.Unmarshal(req.Params.Arguments, &args); err != nil {
			return nil, err
		}
		l.write("big")
		return text(strings.Repeat("x", args.Bytes)), nil
	})
	add("chatter", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 1000 {
			fmt.Println("chatter", i)
			fmt.Fprintln(os.Stderr, "chatter", i)
		}
		return text("said"), nil
	})
	add("grow", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i := range 10 {
			add(fmt.Sprintf("grown %d", i), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return text("grown"), nil
			})
		}
		return text("growing"), nil
	})
	return s
}

// tasks has the work of the tool called later go on after its answer.
func tasks(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if call, ok := req.(*mcp.CallToolRequest); ok && call.Params.Name == "later" && err == nil {
			return created{new(mcp.CallToolResult)}, nil
		}
		return res, err
	}
}

// created is the answer of the protocol's extension for tasks.
type created struct{ *mcp.CallToolResult }

func (created) MarshalJSON() ([]byte, error) {
	return []byte(`{"resultType":"task","taskId":"t1","status":"working","ttlMs":60000}`), nil
}

// update is one call of Run's update function.
type update struct {
	tools []tool.Discovered
	err   error
}

// running is a backend whose Run runs until the end of the test.
type running struct {
	*Backend
	t       testing.TB
	updates chan update
}

func run(t testing.TB, cfg Config) *running {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "test"
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Backend: b, t: t, updates: make(chan update, 100)}
	go b.Run(context.Background(), func(tools []tool.Discovered, err error) {
		r.updates <- update{tools, err}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

// next returns the next update.
func (r *running) next() update {
	r.t.Helper()
	select {
	case u := <-r.updates:
		return u
	case <-time.After(20 * time.Second):
		r.t.Fatal("no update came")
		return update{}
	}
}

// up waits until there are tools.
func (r *running) up() []tool.Discovered {
	r.t.Helper()
	for {
		if u := r.next(); u.err == nil {
			return u.tools
		}
	}
}

// current is the session that takes calls, of whose tools is told before.
func (r *running) current() (now *session) {
	r.t.Helper()
	waitFor(r.t, "a session takes calls", func() bool {
		now = r.state.Load().session
		return now != nil
	})
	return now
}

// down waits until the backend says that it is down, and returns why.
func (r *running) down() error {
	r.t.Helper()
	for {
		if u := r.next(); u.err != nil {
			return u.err
		}
	}
}

func (r *running) call(target, args string) (tool.Reply, *tool.Failure) {
	return r.callAs(tool.NonIdempotent, target, args)
}

func (r *running) callAs(effect tool.Effect, target, args string) (tool.Reply, *tool.Failure) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return r.Invoke(ctx, backend.Invocation{Tool: target, Target: target, Args: []byte(args), Effect: effect})
}

// want calls a tool that must succeed and returns its text.
func (r *running) want(target, args string) string {
	r.t.Helper()
	reply, f := r.call(target, args)
	if f != nil {
		r.t.Fatalf("%s fails: %+v", target, f)
	}
	return string(reply.Text)
}

func wantFailure(t *testing.T, f *tool.Failure, code tool.Code, evidence tool.Evidence, errorType string) {
	t.Helper()
	if f == nil {
		t.Fatalf("no failure, want %s", code)
	}
	if f.Code != code || f.Evidence != evidence || f.ErrorType != errorType {
		t.Errorf("failure is %s, %s, %s (%v); want %s, %s, %s", f.Code, f.Evidence, f.ErrorType, f.Err, code, evidence, errorType)
	}
}

// quick makes restarts fast.
var quick = Timing{RestartBase: 20 * time.Millisecond, RestartMax: 100 * time.Millisecond, Grace: 200 * time.Millisecond}
