package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// payment is a tools/call as it is on the wire, of a revision where that is not empty.
func payment(id, meta, revision string) string {
	if revision != "" {
		meta = strings.Trim(meta+fmt.Sprintf(`,"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`, revision), ",")
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"pay","arguments":{"cents":5},"_meta":{%s}}}`, id, meta)
}

// stateless are the headers of a payment in the revision without sessions.
func stateless(more ...string) []string {
	return append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "pay"}, more...)
}

// stillServes is what every client finds after what another has sent: nothing was paid, and a payment is taken.
func (s *shop) stillServes(t *testing.T) {
	t.Helper()
	if n := s.paid.Load(); n != 0 {
		t.Errorf("%d payments", n)
	}
	if res, err := s.connect(t, "2026-07-28", nil).CallTool(t.Context(), pay("toolu_good", 5)); err != nil || res.IsError {
		t.Errorf("another client: %v, %v", res, err)
	}
}

// A client that says one revision and means another is refused, whatever it says of which.
func TestAClientThatLiesAboutItsRevision(t *testing.T) {
	s := newShop(t)
	for name, lie := range map[string]struct {
		body   string
		header []string
	}{
		"header without _meta":            {payment("1", "", ""), stateless()},
		"header without a session":        {payment("1", "", ""), []string{"Mcp-Protocol-Version", "2025-11-25"}},
		"_meta without header":            {payment("1", "", "2026-07-28"), nil},
		"_meta of another":                {payment("1", "", "2025-11-25"), stateless()},
		"header of another":               {payment("1", "", "2026-07-28"), stateless("Mcp-Protocol-Version", "2025-11-25")},
		"a revision to come":              {payment("1", "", "9999-12-31"), stateless("Mcp-Protocol-Version", "9999-12-31")},
		"no revision at all":              {payment("1", "", "zzz"), stateless("Mcp-Protocol-Version", "zzz")},
		"header of an older, no session":  {payment("1", "", ""), []string{"Mcp-Protocol-Version", "2024-11-05"}},
		"a session that nobody has":       {payment("1", "", ""), []string{"Mcp-Protocol-Version", "2025-11-25", "Mcp-Session-Id", "none"}},
		"both: a session, and none":       {payment("1", "", "2026-07-28"), []string{"Mcp-Protocol-Version", "2025-11-25", "Mcp-Session-Id", "none"}},
		"another method than in the body": {payment("1", "", "2026-07-28"), stateless("Mcp-Method", "tools/list")},
		"another tool than in the body":   {payment("1", "", "2026-07-28"), stateless("Mcp-Name", "order")},
	} {
		code, said := posted(t, s.url+"/mcp", lie.body, lie.header...)
		if code < 400 && !strings.Contains(said, `"error"`) || code >= 500 {
			t.Errorf("%s: %d %s", name, code, said)
		}
	}
	s.stillServes(t)
}

// An id of JSON-RPC is a text or a number, an id of a call a text: another value is refused, and takes no other
// request's place.
func TestIDsOfAWrongTypeOverMCP(t *testing.T) {
	s := newShop(t)
	for _, id := range []string{`{}`, `[1]`, `true`, `{"a":1}`} {
		if code, said := posted(t, s.url+"/mcp", payment(id, "", "2026-07-28"), stateless()...); code != http.StatusBadRequest {
			t.Errorf("an id %s of JSON-RPC: %d %s", id, code, said)
		}
	}
	for _, name := range []string{"toolUseId", "conversationId", "turnId", "promptId", "idempotencyKey"} {
		for _, value := range []string{`7`, `""`, `null`, `["t"]`, `{}`, `true`} {
			code, said := posted(t, s.url+"/mcp", payment("1", fmt.Sprintf(`"dev.sidecall/%s":%s`, name, value), "2026-07-28"), stateless()...)
			if !strings.Contains(said, fmt.Sprintf("dev.sidecall/%s is to be a text", name)) || !strings.Contains(said, "-32602") {
				t.Errorf("%s %s: %d %s", name, value, code, said)
			}
		}
	}
	s.stillServes(t)
}

// endless is a notification of so many bytes, of which a client has no end in sight.
func endless(bytes int) io.Reader {
	return io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"`), io.LimitReader(spaces{}, int64(bytes)), strings.NewReader(`"}}`))
}

type spaces struct{}

func (spaces) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = ' '
	}
	return len(into), nil
}

// Notifications of 100 MB are refused before they are read, announced or not, and nothing of them is kept.
func TestGiantNotifications(t *testing.T) {
	s := newShop(t)
	for _, length := range []int64{100 << 20, -1} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/mcp", io.NopCloser(endless(100<<20)))
		if err != nil {
			t.Fatal(err)
		}
		if req.ContentLength = length; length > 0 {
			req.ContentLength += int64(len(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":""}}`))
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			continue // it was cut off while it still sent
		}
		said, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		_ = res.Body.Close()
		if res.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(said), "limits.max_request_bytes") {
			t.Errorf("%d: %d %s", length, res.StatusCode, said)
		}
	}
	harness.WaitFor(t, "nothing to be held", func() bool { return s.sidecar.parts.bytes.Held() == 0 })
	s.stillServes(t)
}

// A refusal is short, however long what it is about was: a name that differs from its header's came back whole.
func TestAFacesRefusalIsShort(t *testing.T) {
	s := newShop(t)
	long := strings.Repeat("n", 3<<20)
	body := strings.Replace(payment("1", "", "2026-07-28"), `"name":"pay"`, `"name":"`+long+`"`, 1)
	for name, refused := range map[string]struct {
		body   string
		header []string
	}{
		"a name":     {body, stateless()},
		"a method":   {strings.Replace(payment("1", "", "2026-07-28"), "tools/call", long, 1), stateless()},
		"a revision": {payment("1", "", long), stateless()},
		"an id":      {payment(`"`+long+`"`, "", "2025-11-25"), stateless()},
	} {
		code, said := wholly(t, s.url+"/mcp", refused.body, refused.header...)
		if code < 400 || len(said) > 4<<10 || !strings.Contains(said, `"error":{"code":-32`) {
			t.Errorf("%s: %d, %d bytes: %.300s", name, code, len(said), said)
		}
		if !json.Valid([]byte(said)) {
			t.Errorf("%s: it is no JSON: %.300s", name, said)
		}
	}
	s.stillServes(t)
}

// A front with profiles reaches nothing that came through another listener: no result, no output, no hold.
func TestANarrowFrontReachesOnlyWhatCameThroughIt(t *testing.T) {
	inEachRevision(t, func(t *testing.T, revision string) {
		s, all := newNarrowShop(t)
		call := func(id, name, arguments string) *sidecallv1.ExecuteToolResponse {
			t.Helper()
			res, err := all.ExecuteTool(t.Context(), &sidecallv1.ExecuteToolRequest{ToolUseId: id, ConversationId: "c", ToolName: name, ArgumentsJson: arguments})
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		paid, held := call("toolu_1", "pay", `{"cents":5}`), call("toolu_2", "pay", `{"cents":500}`)
		kept := call("toolu_3", "words", `{}`).GetTruncation().GetOutputRef()
		if paid.GetIsError() || held.GetHold() == nil || kept == "" {
			t.Fatalf("%v, %v, %q", paid, held, kept)
		}
		session := s.connect(t, revision, nil)
		id := func(id string) mcp.Meta {
			return mcp.Meta{"dev.sidecall/toolUseId": id, "dev.sidecall/conversationId": "c"}
		}
		res, err := session.CallTool(t.Context(), pay("toolu_1", 5))
		if err != nil || !res.IsError || !strings.Contains(text(t, res), "PERMISSION_DENIED") || res.Meta["dev.sidecall/replayed"] == true {
			t.Errorf("a call of another's by its id: %v, %v", res, err)
		}
		res, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_output", Arguments: map[string]any{"output_ref": kept}, Meta: id("toolu_4")})
		if err != nil || !res.IsError || !strings.Contains(text(t, res), "NOT_FOUND") || strings.Contains(text(t, res), "word ") {
			t.Errorf("an output of another's: %v, %.300s", err, text(t, res))
		}
		res, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "words", Arguments: map[string]any{}, Meta: id("toolu_3")})
		if err != nil || res.Meta["dev.sidecall/replayed"] == true {
			t.Errorf("a call of its own under an id of another's: %v, %v", res, err)
		}
		// The hold of another's: its state is as nobody's.
		params := pay("toolu_2", 500)
		params.RequestState = forged(`{"id":"toolu_2"}`)
		if _, err := session.CallTool(t.Context(), params); err == nil {
			t.Error("the hold of another's is gone on with")
		}
		if res := call("toolu_2", "pay", `{"cents":500}`); !res.GetHold().GetExpiresAt().AsTime().Equal(held.GetHold().GetExpiresAt().AsTime()) {
			t.Errorf("the hold is another: %v, %v", res.GetHold(), held.GetHold())
		}
		if n := s.paid.Load(); n != 1 {
			t.Errorf("%d payments", n)
		}
	})
}

// newNarrowShop is a sidecar whose front has one profile, which may not pay, and a client of its other listener.
func newNarrowShop(t *testing.T) (*shop, sidecallv1.ToolServiceClient) {
	t.Helper()
	s, web := newTill(t)
	socket, address := filepath.Join(harness.ShortDir(t), "s.sock"), harness.FreePort(t)
	sidecar := started(t, parsed(t, fmt.Sprintf(`
listen: [%q]
admin: off
http: {address: %q, profiles: [narrow]}
store: {memory: {}}
default_profile: all
profiles: {all: {tools: ["*"]}, narrow: {tools: [words]}}
backends: {shop: {http: {base_url: %q, allow_private: true}}}
tools:
  pay:
    backend: shop
    http: {method: POST, path: /pay}
    input_schema: {type: object, properties: {cents: {type: integer}}, required: [cents]}
    approve_when: "args.cents > 100"
  words:
    backend: shop
    effect: read_only
    http: {method: GET, path: /words}
    input_schema: {type: object}
`, "unix://"+socket, address, web)), quiet())
	t.Cleanup(func() { _ = sidecar.Stop(context.Background()) })
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s.url, s.sidecar = "http://"+address, sidecar
	return s, sidecallv1.NewToolServiceClient(conn)
}

// A server that never answers initialize costs its own tools: a call that may be of one is told so, and by which
// server, once the time for its connection is over; whatever else there is goes on.
func TestAServerThatNeverAnswersInitialize(t *testing.T) {
	s, web := newTill(t)
	asked := make(chan struct{}, 100)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that a client that leaves is noticed
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	address := harness.FreePort(t)
	s.sidecar = started(t, parsed(t, fmt.Sprintf(`
listen: [%q]
admin: off
http: %q
store: {memory: {}}
backends:
  shop: {http: {base_url: %q, allow_private: true}}
  silent: {optional: true, mcp: {url: %q, allow_private: true, connect_timeout: 50ms}}
tools:
  pay:
    backend: shop
    http: {method: POST, path: /pay}
    input_schema: {type: object, properties: {cents: {type: integer}}, required: [cents]}
`, "unix://"+filepath.Join(harness.ShortDir(t), "s.sock"), address, web, silent.URL)), quiet())
	t.Cleanup(func() { _ = s.sidecar.Stop(context.Background()) })
	s.url = "http://" + address
	<-asked
	inEachRevision(t, func(t *testing.T, revision string) {
		session := s.connect(t, revision, nil)
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "look"})
		if err != nil || !res.IsError || !strings.Contains(text(t, res), "DEPENDENCY_UNAVAILABLE") || !strings.Contains(text(t, res), "silent") {
			t.Errorf("a tool that may be of the server: %v, %v", res, err)
		}
		listed, err := session.ListTools(t.Context(), nil)
		if err != nil || len(listed.Tools) != 2 {
			t.Errorf("%v, %v", listed, err)
		}
	})
	s.stillServes(t)
}
