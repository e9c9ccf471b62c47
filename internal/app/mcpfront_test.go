package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// shop is a sidecar with an MCP front before a shop that takes payments.
type shop struct {
	url      string
	sidecar  *Sidecar
	stop     func() error // once
	operator sidecallv1.OperatorServiceClient
	paid     atomic.Int64
	// slow, when it is set, holds a payment after it was taken.
	slow atomic.Pointer[chan struct{}]
}

// newTill is a shop without a sidecar, and where it is.
func newTill(t *testing.T) (s *shop, url string) {
	t.Helper()
	s = &shop{}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/order":
			_, _ = io.WriteString(w, `{"order":"A-1","cents":5}`)
			return
		case "/words":
			_, _ = io.WriteString(w, strings.Repeat("word ", 20_000))
			return
		}
		n := s.paid.Add(1)
		if wait := s.slow.Load(); wait != nil {
			<-*wait
		}
		_, _ = fmt.Fprintf(w, `{"payment":%d}`, n)
	}))
	t.Cleanup(upstream.Close)
	return s, upstream.URL
}

func newShop(t *testing.T, more ...string) *shop {
	t.Helper()
	s, upstream := newTill(t)
	dir, address := harness.ShortDir(t), harness.FreePort(t)
	started := started(t, parsed(t, fmt.Sprintf(`
listen: [%q]
operator: %q
admin: off
http: %q
store: {memory: {}}
backends: {shop: {http: {base_url: %q, allow_private: true}}}
tools:
  order:
    backend: shop
    http: {method: GET, path: /order}
    effect: read_only
    input_schema: {type: object, properties: {id: {type: string}}, required: [id]}
    output_schema: {type: object}
  pay:
    backend: shop
    description: Takes a payment.
    http: {method: POST, path: /pay}
    input_schema: {properties: {cents: {type: integer}}, required: [cents]}
    approve_when: "args.cents > 100"
    deadline: 30s
`+strings.Join(more, "\n"), "unix://"+filepath.Join(dir, "s.sock"), "unix://"+filepath.Join(dir, "o.sock"), address, upstream)), quiet())
	s.stop = sync.OnceValue(func() error { return started.Stop(context.Background()) })
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "o.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s.url, s.sidecar, s.operator = "http://"+address, started, sidecallv1.NewOperatorServiceClient(conn)
	return s
}

// connect returns a client of a revision.
func (s *shop) connect(t *testing.T, revision string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	return s.connectTo(t, "/mcp", revision, options)
}

func (s *shop) connectTo(t *testing.T, path, revision string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + path}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

var revisions = []string{"2025-11-25", "2026-07-28"}

func inEachRevision(t *testing.T, f func(t *testing.T, revision string)) {
	t.Helper()
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) { f(t, revision) })
	}
}

func pay(id string, cents int) *mcp.CallToolParams {
	params := &mcp.CallToolParams{Name: "pay", Arguments: map[string]any{"cents": cents}}
	if id != "" {
		params.Meta = mcp.Meta{"dev.sidecall/toolUseId": id, "dev.sidecall/conversationId": "c"}
	}
	return params
}

func text(t *testing.T, res *mcp.CallToolResult) string {
	t.Helper()
	var all []string
	for _, content := range res.Content {
		if one, ok := content.(*mcp.TextContent); ok {
			all = append(all, one.Text)
		}
	}
	return strings.Join(all, "\n")
}

func TestToolsAreListedOverMCP(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		session := newShop(t).connect(t, revision, nil)
		listed, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]*mcp.Tool{}
		for _, tool := range listed.Tools {
			byName[tool.Name] = tool
		}
		order, pay := byName["order"], byName["pay"]
		if len(byName) != 3 || order == nil || pay == nil || byName["read_output"] == nil {
			t.Fatalf("the tools are %v", byName)
		}
		if !order.Annotations.ReadOnlyHint || pay.Annotations.ReadOnlyHint || pay.Annotations.IdempotentHint {
			t.Errorf("annotations: %+v, %+v", order.Annotations, pay.Annotations)
		}
		if pay.Description != "Takes a payment." || pay.Meta["dev.sidecall/effect"] != "non_idempotent" ||
			!strings.Contains(fmt.Sprint(pay.Meta["dev.sidecall/idempotency"]), "dev.sidecall/toolUseId") || order.Meta["dev.sidecall/idempotency"] != nil {
			t.Errorf("pay: %q, %v; order: %v", pay.Description, pay.Meta, order.Meta)
		}
		schema, _ := pay.InputSchema.(map[string]any)
		if schema["type"] != "object" || schema["required"] == nil {
			t.Errorf("the schema of pay is %v", schema)
		}
	})
}

// The request that is sent again is known by what it says of its call, whatever session it
// comes in, and not by its id in JSON-RPC.
func TestACallOverMCPRunsOnce(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		s := newShop(t)
		for i := range 3 {
			res, err := s.connect(t, revision, nil).CallTool(t.Context(), pay("toolu_1", 5))
			if err != nil {
				t.Fatal(err)
			}
			if res.IsError || text(t, res) != `{"payment":1}` || (res.Meta["dev.sidecall/replayed"] == true) != (i > 0) {
				t.Errorf("answer %d: %q, %v", i, text(t, res), res.Meta)
			}
		}
		claude := &mcp.CallToolParams{Name: "pay", Arguments: map[string]any{"cents": 5}, Meta: mcp.Meta{"claudecode/toolUseId": "toolu_2"}}
		for range 2 {
			if _, err := s.connect(t, revision, nil).CallTool(t.Context(), claude); err != nil {
				t.Fatal(err)
			}
		}
		keyed := &mcp.CallToolParams{Name: "pay", Arguments: map[string]any{"cents": 5}, Meta: mcp.Meta{"dev.sidecall/idempotencyKey": "k"}}
		for range 2 { // as another sidecar sends it
			if _, err := s.connect(t, revision, nil).CallTool(t.Context(), keyed); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // nobody can know that these are one
			if _, err := s.connect(t, revision, nil).CallTool(t.Context(), pay("", 5)); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.paid.Load(); n != 5 {
			t.Errorf("%d payments, want 1 + 1 + 1 + 2", n)
		}
	})
}

func TestErrorsOverMCP(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		s := newShop(t)
		session := s.connect(t, revision, nil)
		bad := pay("toolu_1", 5)
		bad.Arguments = map[string]any{"cents": "many"}
		res, err := session.CallTool(t.Context(), bad)
		if err != nil {
			t.Fatal(err)
		}
		told, _ := res.StructuredContent.(map[string]any)
		if !res.IsError || told["code"] != "INVALID_ARGS" || told["field"] != "cents" || told["hint"] == "" || len(told) != 5 || !strings.Contains(text(t, res), `"INVALID_ARGS"`) {
			t.Errorf("arguments that break the schema: %q, %v", text(t, res), told)
		}
		_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "pya", Arguments: map[string]any{}, Meta: pay("toolu_2", 1).Meta})
		var refused *jsonrpc.Error
		if !errors.As(err, &refused) || refused.Code != -32602 {
			t.Fatalf("an unknown tool: %v", err)
		}
		var five map[string]string
		if err := json.Unmarshal(refused.Data, &five); err != nil || five["code"] != "UNKNOWN_TOOL" || len(five) != 5 || !strings.Contains(five["constraint"], `"pay"`) {
			t.Errorf("the data of an unknown tool: %s, %v", refused.Data, err)
		}
		unscoped := pay("toolu_3", 5)
		delete(unscoped.Meta, "dev.sidecall/conversationId")
		res, err = session.CallTool(t.Context(), unscoped)
		if revision == "2025-11-25" {
			if err != nil || res.IsError {
				t.Errorf("an id in a session: %v, %v", res, err)
			}
		} else if !errors.As(err, &refused) || refused.Code != -32602 || !strings.Contains(refused.Message, "conversation_id") {
			t.Errorf("an id of no conversation: %v", err)
		}
	})
}

// A client that goes away ends no effect, and its next request gets what came of it.
func TestAClientThatGoesAwayEndsNoEffect(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		s := newShop(t)
		wait := make(chan struct{})
		s.slow.Store(&wait)
		ctx, cancel := context.WithCancel(t.Context())
		session := s.connect(t, revision, nil)
		ended := make(chan struct{})
		go func() {
			_, _ = session.CallTool(ctx, pay("toolu_1", 5))
			close(ended)
		}()
		harness.WaitFor(t, "the payment", func() bool { return s.paid.Load() == 1 })
		cancel()
		<-ended
		close(wait)
		res, err := s.connect(t, revision, nil).CallTool(t.Context(), pay("toolu_1", 5))
		if err != nil || res.IsError || text(t, res) != `{"payment":1}` || s.paid.Load() != 1 {
			t.Errorf("sent again: %v, %v, %d payments", res, err, s.paid.Load())
		}
	})
}

// A held call asks the client's user in each revision's own way; allowed it is, where the
// sidecar is looked after, and by no answer of a client.
func TestAHeldCallAsksOverMCP(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		for _, id := range []string{"toolu_1", ""} {
			s := newShop(t)
			var asked []string
			var mu sync.Mutex
			answers := []string{"accept"}
			if revision >= "2026-07-28" {
				answers = []string{"accept", "accept"} // at the first nobody has allowed it
			}
			session := s.connect(t, revision, &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, req.Params.Message)
				if len(asked) == len(answers) {
					s.allow(t)
				}
				return &mcp.ElicitResult{Action: answers[len(asked)-1], Content: map[string]any{}}, nil
			}})
			res, err := session.CallTool(t.Context(), pay(id, 500))
			if err != nil || res.IsError || text(t, res) != `{"payment":1}` || s.paid.Load() != 1 {
				t.Fatalf("id %q: %v, %v, %d payments", id, res, err, s.paid.Load())
			}
			if len(asked) != len(answers) || !strings.Contains(asked[0], "args.cents > 100") || !strings.Contains(asked[0], `"cents":500`) || !strings.Contains(asked[0], "sidecall approvals approve") {
				t.Errorf("id %q: asked %q", id, asked)
			}
		}
	})
}

// A question that nobody answers keeps neither its session nor the sidecar from ending.
func TestAQuestionThatNobodyAnswers(t *testing.T) {
	for name, end := range map[string]func(*shop, *mcp.ClientSession) error{
		"the sidecar ends": func(s *shop, _ *mcp.ClientSession) error { return s.stop() },
		"the session ends": (*shop).end,
	} {
		t.Run(name, func(t *testing.T) {
			s, asked, over := newShop(t), make(chan struct{}), make(chan struct{})
			session := s.connect(t, "2025-11-25", &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				close(asked)
				<-over
				return nil, errors.New("too late")
			}})
			ended := make(chan error, 1)
			go func() {
				_, err := session.CallTool(t.Context(), pay("toolu_1", 500))
				ended <- err
			}()
			<-asked
			if err := end(s, session); err != nil {
				t.Error(err)
			}
			close(over)
			<-ended
		})
	}
}

// A client that ends its session waits for no call in it: the call settles, as that of a client which goes away.
func TestTheEndOfASessionWaitsForNoCall(t *testing.T) {
	s, wait := newShop(t), make(chan struct{})
	s.slow.Store(&wait)
	session := s.connect(t, "2025-11-25", nil)
	ended := make(chan struct{})
	go func() {
		_, _ = session.CallTool(t.Context(), pay("toolu_1", 5)) // its answer goes nowhere
		close(ended)
	}()
	harness.WaitFor(t, "the payment", func() bool { return s.paid.Load() == 1 })
	if err := s.end(session); err != nil {
		t.Error(err)
	}
	close(wait)
	<-ended
	res, err := s.connect(t, "2025-11-25", nil).CallTool(t.Context(), pay("toolu_1", 5))
	if err != nil || res.IsError || text(t, res) != `{"payment":1}` || s.paid.Load() != 1 {
		t.Errorf("sent again: %v, %v, %d payments", res, err, s.paid.Load())
	}
}

// end ends a session.
func (s *shop) end(session *mcp.ClientSession) error {
	req, err := http.NewRequest(http.MethodDelete, s.url+"/mcp", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Mcp-Session-Id", session.ID())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (s *shop) allow(t *testing.T) {
	t.Helper()
	held, err := s.operator.ListHeld(t.Context(), &sidecallv1.ListHeldRequest{})
	if err != nil || len(held.GetExecutions()) != 1 {
		t.Fatalf("held: %v, %v", held, err)
	}
	one := held.GetExecutions()[0]
	if _, err := s.operator.ApproveExecution(t.Context(), &sidecallv1.ApproveExecutionRequest{
		ConversationId: one.GetConversationId(), TurnId: one.GetTurnId(), ToolUseId: one.GetToolUseId(),
		DecidedBy: "ada", Reason: "checked",
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAHeldCallWithoutAnAnswer(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		s := newShop(t)
		for name, options := range map[string]*mcp.ClientOptions{
			"a client that cannot ask": nil,
			"a user who declines": {ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				s.allow(t) // which changes nothing: the user does not want it now
				return &mcp.ElicitResult{Action: "decline"}, nil
			}},
		} {
			res, err := s.connect(t, revision, options).CallTool(t.Context(), pay("toolu_1", 500))
			if err != nil || !res.IsError || !strings.Contains(text(t, res), "APPROVAL_REQUIRED") {
				t.Errorf("%s: %v, %v", name, res, err)
			}
			if options != nil {
				break
			}
		}
		if n := s.paid.Load(); n != 0 {
			t.Errorf("%d payments", n)
		}
	})
}

// A client that refuses to ask its user is told what one is that cannot ask, and nothing of the question.
func TestAHeldCallWhoseQuestionIsRefused(t *testing.T) {
	s := newShop(t)
	res, err := s.connect(t, "2025-11-25", &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return nil, errors.New("there is no window")
	}}).CallTool(t.Context(), pay("toolu_1", 500))
	if err != nil || !res.IsError || !strings.Contains(text(t, res), "APPROVAL_REQUIRED") || strings.Contains(text(t, res), "window") || s.paid.Load() != 0 {
		t.Errorf("%v, %v, %d payments", res, err, s.paid.Load())
	}
}

// So many questions wait for an answer, and no more: each holds its request. The call beyond them is answered.
func TestQuestionsThatWaitAreBounded(t *testing.T) {
	const most = 256
	s, over := newShop(t), make(chan struct{})
	var asked atomic.Int64
	session := s.connect(t, "2025-11-25", &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked.Add(1)
		<-over
		return &mcp.ElicitResult{Action: "decline"}, nil
	}})
	var held sync.WaitGroup
	defer held.Wait()
	defer close(over)
	for i := range most {
		held.Go(func() { _, _ = session.CallTool(t.Context(), pay(fmt.Sprint("toolu_", i), 500)) }) // refused in the end
	}
	harness.WaitFor(t, "the questions", func() bool { return asked.Load() == most })
	res, err := session.CallTool(t.Context(), pay("toolu_more", 500))
	if err != nil || !res.IsError || !strings.Contains(text(t, res), "APPROVAL_REQUIRED") || asked.Load() != most {
		t.Errorf("%v, %v, %d are asked", res, err, asked.Load())
	}
}

// What a client sends as its state is looked at.
func TestAStateThatIsNoneOfThisServer(t *testing.T) {
	s := newShop(t)
	session := s.connect(t, "2026-07-28", &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}, ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return nil, errors.New("nobody is asked")
	}})
	first, err := session.CallTool(t.Context(), pay("toolu_1", 500))
	if err != nil || !first.NeedsInput() {
		t.Fatalf("a held call: %v, %v", first, err)
	}
	for name, change := range map[string]func(*mcp.CallToolParams){
		"tampered with":   func(p *mcp.CallToolParams) { p.RequestState += "x!" },
		"of nobody":       func(p *mcp.CallToolParams) { p.RequestState = "step=1" },
		"of another call": func(p *mcp.CallToolParams) { p.Meta["dev.sidecall/toolUseId"] = "toolu_2" },
		"of another caller": func(p *mcp.CallToolParams) {
			p.Meta["dev.sidecall/conversationId"] = "d"
		},
		"without a name for it": func(p *mcp.CallToolParams) { p.Meta = nil },
	} {
		params := pay("toolu_1", 500)
		params.RequestState = first.RequestState
		change(params)
		_, err := session.CallTool(t.Context(), params)
		var refused *jsonrpc.Error
		if !errors.As(err, &refused) || refused.Code != -32602 || !strings.HasPrefix(refused.Message, "requestState: ") {
			t.Errorf("a state %s: %v", name, err)
		}
	}
	if n := s.paid.Load(); n != 0 {
		t.Errorf("%d payments", n)
	}
}

func TestPagesAndHostsThatMayNotAsk(t *testing.T) {
	s := newShop(t)
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for name, test := range map[string]struct {
		change func(*http.Request)
		body   string
		want   int
	}{
		"a client":           {func(*http.Request) {}, body, http.StatusOK},
		"another profile":    {func(r *http.Request) { r.URL.Path = "/mcp/research" }, body, http.StatusOK},
		"no such profile":    {func(r *http.Request) { r.URL.Path = "/mcp/nobody" }, body, http.StatusNotFound},
		"a rebound name":     {func(r *http.Request) { r.Host = "rebind.example" }, body, http.StatusMisdirectedRequest},
		"a page of others":   {func(r *http.Request) { r.Header.Set("Origin", "https://example.com") }, body, http.StatusForbidden},
		"a request too long": {func(*http.Request) {}, strings.Repeat(" ", 5<<20), http.StatusRequestEntityTooLarge},
		"no JSON":            {func(*http.Request) {}, "{", http.StatusBadRequest},
		"a revision of none": {func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", "2024-13-01") }, body, http.StatusBadRequest},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/mcp", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		test.change(req)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			cancel()
			continue
		}
		said, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		if res.StatusCode != test.want || strings.Contains(string(said), "rpc error") {
			t.Errorf("%s: %d %s, want %d", name, res.StatusCode, said, test.want)
		}
		_ = res.Body.Close()
		cancel()
	}
}

// A server that says that it honours the key of a call may be sent the call again; any other may
// not, whatever the config says of its tools.
func TestAnMCPServerThatHonoursTheKey(t *testing.T) {
	for _, honours := range []bool{true, false} {
		var keys []string
		var mu sync.Mutex
		office := mcp.NewServer(&mcp.Implementation{Name: "office", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{}})
		if honours {
			office = mcp.NewServer(&mcp.Implementation{Name: "office", Version: "1"}, &mcp.ServerOptions{
				Capabilities: &mcp.ServerCapabilities{Experimental: map[string]any{"dev.sidecall/idempotency": map[string]any{}}}})
		}
		office.AddTool(&mcp.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			mu.Lock()
			key, _ := req.Params.Meta["dev.sidecall/idempotencyKey"].(string)
			keys = append(keys, key)
			mu.Unlock()
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "paid"}}}, nil
		})
		inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return office }, nil)
		var lost atomic.Bool
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if bytes.Contains(body, []byte("tools/call")) && lost.CompareAndSwap(false, true) {
				inner.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler) // it is paid, and the answer is lost
			}
			inner.ServeHTTP(w, r)
		}))
		t.Cleanup(web.Close)
		socket := filepath.Join(harness.ShortDir(t), "s.sock")
		s := started(t, parsed(t, fmt.Sprintf(`
listen: [%q]
admin: off
store: {memory: {}}
backends: {office: {mcp: {url: %q, allow_private: true}, effects: {pay: keyed}}}
`, "unix://"+socket, web.URL)), quiet())
		<-s.Ready()
		res, err := dialled(t, socket).ExecuteTool(t.Context(), &sidecallv1.ExecuteToolRequest{ToolUseId: "1", ConversationId: "c", ToolName: "pay"})
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		switch {
		case honours && (!strings.Contains(res.GetContent(), "paid") || len(keys) != 2 || keys[0] != keys[1] || keys[0] == ""):
			t.Errorf("keyed: %v, sent with %q", res, keys)
		case !honours && (res.GetError().GetCode() != "OUTCOME_UNKNOWN" || len(keys) != 1):
			t.Errorf("not keyed: %v, sent with %q", res, keys)
		}
		mu.Unlock()
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
