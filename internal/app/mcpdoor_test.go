package app

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// forged is a state that a client has made up, with the sum that every state has.
func forged(state string) string {
	sum := sha256.Sum256([]byte(state))
	return base64.RawURLEncoding.EncodeToString(append(sum[:8:8], state...))
}

// A further round is one that the tool has asked for: nobody makes one up to have the effect of
// a call once more.
func TestARoundThatNobodyAskedForIsRefused(t *testing.T) {
	s := newShop(t)
	session := s.connect(t, "2026-07-28", nil)
	if _, err := session.CallTool(t.Context(), pay("toolu_1", 5)); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{
		`{"id":"toolu_1","n":1,"server":"x"}`, `{"id":"toolu_1","n":2}`,
		`{"id":"toolu_1","asked":"toolu_1"}`, `{"id":"toolu_1","asked":"toolu_1","server":"x"}`,
		`{"id":"toolu_1","asked":"toolu_1#x","server":"x"}`,
	} {
		params := pay("toolu_1", 5)
		params.RequestState = forged(state)
		res, err := session.CallTool(t.Context(), params)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); (!ok || !strings.HasPrefix(refused.Message, "requestState: ")) && (res == nil || res.Meta["dev.sidecall/replayed"] != true) {
			t.Errorf("%s: %v, %v", state, res, err)
		}
	}
	if n := s.paid.Load(); n != 1 {
		t.Errorf("%d payments of one call", n)
	}
}

// bureau is an MCP server behind a sidecar with a front.
type bureau struct {
	server *mcp.Server
	config string // of its backend, in the place of %s
	more   string // of the config

	url, socket string
	sidecar     *Sidecar
}

// opened starts a sidecar before the bureau, whose transport is the modern one where that is said.
func (o *bureau) opened(t *testing.T, modern bool) {
	t.Helper()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return o.server }, &mcp.StreamableHTTPOptions{Stateless: modern})
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	protocol := ""
	if modern {
		protocol = ", protocol: 2026-07-28"
	}
	address := harness.FreePort(t)
	o.url, o.socket = "http://"+address, filepath.Join(harness.ShortDir(t), "s.sock")
	o.sidecar = started(t, parsed(t, fmt.Sprintf(`
listen: [%q]
admin: off
http: %q
store: {memory: {}}
backends: {office: {trust: trusted, mcp: {url: %q, allow_private: true%s%s}}}
%s`, "unix://"+o.socket, address, web.URL, protocol, o.config, o.more)), quiet())
	t.Cleanup(func() { _ = o.sidecar.Stop(context.Background()) })
	<-o.sidecar.Ready()
}

// connect returns a client of a revision.
func (o *bureau) connect(t *testing.T, revision string, options *mcp.ClientOptions) *mcp.ClientSession {
	return (&shop{url: o.url}).connect(t, revision, options)
}

// An answer has one effect, whatever else its client says of where it was asked for.
func TestAnAnswerHasOneEffect(t *testing.T) {
	o := &bureau{server: mcp.NewServer(&mcp.Implementation{Name: "office", Version: "1"}, nil)}
	var paid atomic.Int64
	o.server.AddTool(&mcp.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.RequestState != "" {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(paid.Add(1))}}}, nil
		}
		return &mcp.CallToolResult{RequestState: "of the bureau", InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{
			Mode: "form", Message: "Sure?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
		}}}, nil
	})
	o.server.AddTool(&mcp.Tool{Name: "other", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		paid.Add(1)
		return &mcp.CallToolResult{}, nil
	})
	o.opened(t, true)
	session := o.connect(t, "2026-07-28", &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("nobody is asked")
		},
	})
	first, err := session.CallTool(t.Context(), pay("toolu_1", 5))
	if err != nil || !first.NeedsInput() {
		t.Fatalf("the first round: %v, %v", first, err)
	}
	answered := func(tool, state string) (*mcp.CallToolResult, error) {
		params := pay("toolu_1", 5)
		params.Name, params.RequestState = tool, state
		params.InputResponses = mcp.InputResponseMap{"sure": &mcp.ElicitResult{Action: "accept"}}
		return session.CallTool(t.Context(), params)
	}
	for range 2 {
		if res, err := answered("pay", first.RequestState); err != nil || text(t, res) != "1" {
			t.Fatalf("the second round: %v, %v", res, err)
		}
	}
	for name, try := range map[string][2]string{
		"another tool":               {"other", first.RequestState},
		"another state":              {"pay", forged(`{"id":"toolu_1","asked":"toolu_1","server":"of nobody"}`)},
		"a round that did not ask":   {"pay", forged(`{"id":"toolu_1","asked":"toolu_1#x","server":"of the bureau"}`)},
		"more than a state can have": {"pay", forged(`{"id":"toolu_1","asked":"toolu_1","server":"of the bureau","n":7}`)},
	} {
		res, err := answered(try[0], try[1])
		if refused, ok := errors.AsType[*jsonrpc.Error](err); (!ok || !strings.HasPrefix(refused.Message, "requestState: ")) && (res == nil || text(t, res) != "1") {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
	if n := paid.Load(); n != 1 {
		t.Errorf("%d payments of one answer", n)
	}
}

// What a server says of a call while it runs holds no more of the config's secrets than its result.
func TestWhatIsHeardOfACallHoldsNoSecrets(t *testing.T) {
	const secret = "s3cr3t-of-the-operator"
	o := &bureau{server: mcp.NewServer(&mcp.Implementation{Name: "bureau", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Logging: new(mcp.LoggingCapabilities)}})} //nolint:staticcheck // it works as long as clients have it
	o.config, o.more = ", headers: {X-Token: "+secret+"}, hands_on: [elicitation, logging]", ""
	o.server.AddTool(&mcp.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		token := req.Extra.Header.Get("X-Token")
		_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "with " + token}) //nolint:staticcheck // likewise
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Message: "with " + token, Progress: 1})
		_, _ = req.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "form", Message: "with " + token, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "with " + token}}}, nil
	})
	o.opened(t, false)
	heard := make(chan string, 10)
	session := o.connect(t, "2025-11-25", &mcp.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) { heard <- fmt.Sprint("log: ", req.Params.Data) }, //nolint:staticcheck // likewise
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			heard <- "progress: " + req.Params.Message
		},
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			heard <- "question: " + req.Params.Message
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
	})
	params := pay("toolu_1", 5)
	params.SetProgressToken("p")
	res, err := session.CallTool(t.Context(), params)
	if err != nil || strings.Contains(text(t, res), secret) {
		t.Fatalf("%v, %v", res, err)
	}
	for range 3 {
		if said := <-heard; strings.Contains(said, secret) || !strings.Contains(said, "with ") {
			t.Errorf("a client heard %q", said)
		}
	}
}

// Nor does what it asks for before it goes on.
func TestAQuestionHoldsNoSecrets(t *testing.T) {
	const secret = "s3cr3t-of-the-operator"
	o := &bureau{server: mcp.NewServer(&mcp.Implementation{Name: "bureau", Version: "1"}, nil), config: ", headers: {X-Token: " + secret + "}"}
	o.server.AddTool(&mcp.Tool{Name: "pay", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{RequestState: "s", InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{
			Mode: "form", Message: "with " + req.Extra.Header.Get("X-Token"), RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
		}}}, nil
	})
	o.opened(t, true)
	res, err := o.connect(t, "2026-07-28", &mcp.ClientOptions{
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("nobody is asked")
		},
	}).CallTool(t.Context(), pay("toolu_1", 5))
	if err != nil || !res.NeedsInput() {
		t.Fatalf("%v, %v", res, err)
	}
	if asked, ok := res.InputRequests["sure"].(*mcp.ElicitParams); !ok || strings.Contains(asked.Message, secret) || !strings.Contains(asked.Message, "with ") {
		t.Errorf("a client is asked %v", res.InputRequests["sure"])
	}
}

// posted is a request as it is on the wire, and the beginning of what is answered.
func posted(t *testing.T, url, body string, header ...string) (code int, said string) {
	t.Helper()
	code, said = wholly(t, url, body, header...)
	return code, said[:min(len(said), 2000)]
}

// wholly is the same with the whole answer.
func wholly(t *testing.T, url, body string, header ...string) (code int, said string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	whole, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(whole)
}

func TestABatchIsNotTaken(t *testing.T) {
	s := newShop(t)
	one := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"pay","arguments":{"cents":5}}}`
	var calls []string
	for i := range 1000 {
		calls = append(calls, fmt.Sprintf(one, i))
	}
	if code, said := posted(t, s.url+"/mcp", " ["+strings.Join(calls, ",")+"]"); code != http.StatusBadRequest || !strings.Contains(said, "a batch is not taken") {
		t.Errorf("%d %s", code, said)
	}
	if n := s.paid.Load(); n != 0 {
		t.Errorf("%d payments", n)
	}
}

// Requests that were begun and do not come had all the room there is, for ten seconds each.
func TestWhatDoesNotArriveKeepsNobodyOut(t *testing.T) {
	s := newShop(t)
	s.stall(t, 100)
	if _, err := s.connect(t, "2026-07-28", nil).CallTool(t.Context(), pay("toolu_1", 5)); err != nil {
		t.Error(err)
	}
}

// stall begins requests of a length that nobody knows.
func (s *shop) stall(t *testing.T, many int) {
	t.Helper()
	for range many {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil { // which says that it is read
			t.Fatal(err)
		}
	}
}

// A call that is under way when a sidecar is stopped ends, and its answer reaches its client.
func TestAStopLosesNoAnswerOverMCP(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		for range 3 {
			s := newShop(t)
			hold := make(chan struct{})
			s.slow.Store(&hold)
			session := s.connect(t, revision, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {}})
			ended := make(chan error, 8)
			for i := range cap(ended) {
				go func() {
					res, err := session.CallTool(t.Context(), pay(fmt.Sprint("toolu_", i), 5))
					if err == nil && res.IsError {
						err = errors.New(text(t, res))
					}
					ended <- err
				}()
			}
			harness.WaitFor(t, "the payments", func() bool { return s.paid.Load() == int64(cap(ended)) })
			stopped := make(chan error, 1)
			go func() { stopped <- s.stop() }()
			harness.WaitFor(t, "the drain", s.sidecar.parts.drain.Draining)
			close(hold)
			for range cap(ended) {
				if err := <-ended; err != nil {
					t.Errorf("a call under way: %v", err)
				}
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		}
	})
}

// Whoever subscribes and goes away, in whatever way, leaves nothing behind: after a thousand of
// them nobody could subscribe any more. And nobody ends the subscription of another.
func TestSubscriptionsEndWithTheirClients(t *testing.T) {
	var subscribed sync.Map
	o := &bureau{}
	var count atomic.Int64
	left := make(chan struct{})
	o.server = mcp.NewServer(&mcp.Implementation{Name: "bureau", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler: func(_ context.Context, req *mcp.SubscribeRequest) error {
			subscribed.Store(req.Params.URI, true)
			count.Add(1)
			if req.Params.URI == "file:///l" {
				<-left // its client goes while it subscribes
			}
			return nil
		},
		UnsubscribeHandler: func(_ context.Context, req *mcp.UnsubscribeRequest) error {
			subscribed.Delete(req.Params.URI)
			return nil
		},
	})
	o.server.AddTool(&mcp.Tool{Name: "act", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
	o.server.AddResource(&mcp.Resource{URI: "file:///a", Name: "a"}, nil)
	o.opened(t, false)
	none := func(uri string) func() bool {
		return func() bool { _, there := subscribed.Load(uri); return !there }
	}
	for i := range 3 {
		uri := fmt.Sprint("file:///", i)
		session := o.connect(t, "2025-11-25", nil)
		if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
		if err := o.connect(t, "2025-11-25", nil).Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
		if none(uri)() {
			t.Error("another client has ended it")
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		harness.WaitFor(t, "it to be given up", none(uri))
	}
	ctx, leave := context.WithCancel(t.Context())
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, o.url+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["file:///l"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`))
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}()
	harness.WaitFor(t, "a listener", func() bool { return !none("file:///l")() })
	leave()
	<-listening
	close(left)
	harness.WaitFor(t, "it to be given up", none("file:///l"))
}

// An id of Claude Code's is its provider's; where another provider is behind it, ids such as
// call_0 are of its session alone.
func TestIDsOfOtherProvidersDoNotMeet(t *testing.T) {
	s := newShop(t)
	params := &mcp.CallToolParams{Name: "pay", Arguments: map[string]any{"cents": 5}, Meta: mcp.Meta{"claudecode/toolUseId": "call_0"}}
	for range 2 {
		if res, err := s.connect(t, "2025-11-25", nil).CallTool(t.Context(), params); err != nil || res.Meta["dev.sidecall/replayed"] == true {
			t.Errorf("%v, %v", res, err)
		}
	}
	if n := s.paid.Load(); n != 2 {
		t.Errorf("%d payments of two clients", n)
	}
}

// A face is what there is: a profile that a config takes away is none, and of servers that it adds
// clients see the resources.
func TestAFaceFollowsTheConfig(t *testing.T) {
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		server := mcp.NewServer(&mcp.Implementation{Name: "bureau", Version: "1"}, nil)
		server.AddTool(&mcp.Tool{Name: "look", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
		server.AddResource(&mcp.Resource{URI: "file:///a", Name: "a"}, nil)
		return server
	}, nil))
	t.Cleanup(web.Close)
	address := harness.FreePort(t)
	text := twoTools + "http: " + address + "\n"
	c := newChanging(t, text+"profiles: {guest: {}}\n")
	s := &shop{url: "http://" + address}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	if code, said := posted(t, s.url+"/mcp/guest", hello); code != http.StatusOK {
		t.Fatalf("%d %s", code, said)
	}
	if s.connect(t, "2025-11-25", nil).InitializeResult().Capabilities.Resources != nil {
		t.Error("there are resources of nobody")
	}
	c.take(edit(t, text, "}}}\n", fmt.Sprintf("}}, bureau: {mcp: {url: %q, allow_private: true}}}\n", web.URL)))
	harness.WaitFor(t, "the profile to be none", func() bool {
		code, _ := posted(t, s.url+"/mcp/guest", hello)
		return code == http.StatusNotFound
	})
	harness.WaitFor(t, "the resources", func() bool {
		session := s.connect(t, "2025-11-25", nil)
		defer func() { _ = session.Close() }()
		if session.InitializeResult().Capabilities.Resources == nil {
			return false
		}
		listed, err := session.ListResources(t.Context(), nil)
		return err == nil && len(listed.Resources) == 1
	})
}

// A flood of handshakes, whichever profile they are for, opens no more sessions than there may be.
func TestAFloodOfHandshakes(t *testing.T) {
	s := newShop(t)
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	var opened, refused atomic.Int64
	var flood sync.WaitGroup
	for i := range 100 {
		flood.Go(func() {
			for range 13 {
				switch code, said := posted(t, s.url+[]string{"/mcp", "/mcp/research", "/mcp/code"}[i%3], hello); code {
				case http.StatusOK:
					opened.Add(1)
				case http.StatusServiceUnavailable:
					refused.Add(1)
				default:
					t.Errorf("%d %s", code, said)
				}
			}
		})
	}
	flood.Wait()
	if n := opened.Load(); n > 1000 || n < 800 || n+refused.Load() != 1300 { // one may be counted twice while it opens
		t.Errorf("%d opened, %d refused", opened.Load(), refused.Load())
	}
	if _, err := s.connect(t, "2026-07-28", nil).CallTool(t.Context(), pay("toolu_1", 5)); err != nil {
		t.Errorf("meanwhile, without a session: %v", err)
	}
}

// What a client says of itself is kept as long as its session, so it is short.
func TestWhatIsKeptForASessionIsShort(t *testing.T) {
	s := newShop(t)
	text := strings.Repeat("x", 64<<10)
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"%s"}}}`
	if _, said := posted(t, s.url+"/mcp", fmt.Sprintf(hello, text)); !strings.Contains(said, "-32602") || !strings.Contains(said, "65536 bytes") {
		t.Error(said)
	}
	if code, said := posted(t, s.url+"/mcp", fmt.Sprintf(hello, text[1000:])); code != http.StatusOK || !strings.Contains(said, `"capabilities"`) {
		t.Errorf("%d %s", code, said)
	}
	if err := s.connect(t, "2025-11-25", nil).SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: mcp.LoggingLevel(text)}); err == nil || !strings.Contains(err.Error(), "65536 bytes") { //nolint:staticcheck // it works as long as clients have it
		t.Errorf("a level: %v", err)
	}
}

// An idle session keeps nothing of what was last said in it.
func TestAnIdleSessionIsSmall(t *testing.T) {
	s := newShop(t)
	held := func() int64 {
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return int64(now.HeapAlloc)
	}
	params := pay("", 5)
	params.Arguments = map[string]any{"cents": 5, "note": strings.Repeat("x", 1<<20)}
	before := held()
	for range 10 {
		if _, err := s.connect(t, "2025-11-25", nil).CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		posted(t, s.url+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"},"note":"`+strings.Repeat("x", 1<<20)+`"}}`)
	}
	if more := held() - before; more > 5<<20 {
		t.Errorf("20 sessions hold %d bytes", more)
	}
}

// Two ids that are no texts were one: what could not be read of them was the same.
func TestWhatIsNoTextIsRefused(t *testing.T) {
	s := newShop(t)
	for _, id := range []string{"\xfe", "\xff"} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"cents":5},"_meta":{"dev.sidecall/toolUseId":"` + id + `","dev.sidecall/conversationId":"c"}}}`
		if code, said := posted(t, s.url+"/mcp", body); code != http.StatusBadRequest || !strings.Contains(said, "UTF-8") {
			t.Errorf("%q: %d %s", id, code, said)
		}
	}
}

// Whoever is refused for want of room hears why, also one that still sends.
func TestARefusalIsHeardByWhoStillSends(t *testing.T) {
	s := newShop(t)
	var all limit.Load
	all.Of(s.sidecar.parts.bytes)
	if !all.Take(s.sidecar.parts.bytes.Max()) {
		t.Fatal("something is held already")
	}
	defer all.Release()
	if code, said := posted(t, s.url+"/mcp", strings.Repeat(" ", 3<<20)); code != http.StatusServiceUnavailable || !strings.Contains(said, "OVERLOADED") {
		t.Errorf("%d %s", code, said)
	}
}
