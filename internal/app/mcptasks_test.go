package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// told is what a front says of a task, or in its place.
type told struct {
	ResultType    string              `json:"resultType"`
	TaskID        string              `json:"taskId"`
	Status        string              `json:"status"`
	StatusMessage string              `json:"statusMessage"`
	CreatedAt     string              `json:"createdAt"`
	Poll          int                 `json:"pollIntervalMs"`
	TTL           json.RawMessage     `json:"ttlMs"`
	Result        *mcp.CallToolResult `json:"result"`
	Error         *struct {
		Code    int
		Message string
	} `json:"error"`
	IsError bool `json:"isError"`
	Content []struct{ Text string }
	// refused is the JSON-RPC error of a request, and status that of HTTP.
	refused struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
	status int
}

const (
	takesTasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	takesNone  = `{}`
)

// say sends a request of 2026-07-28 as a client with these capabilities, and returns what it is told.
func (s *shop) say(t *testing.T, capabilities, method, name string, params map[string]any, meta map[string]any) (told told) {
	t.Helper()
	all := map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "test", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": json.RawMessage(capabilities),
	}
	maps.Copy(all, meta)
	params["_meta"] = all
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/mcp", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for header, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		req.Header.Set(header, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, data, is := bytes.Cut(text, []byte("data: ")); is {
		text = data
	}
	answer := struct {
		Result any
		Error  any
	}{&told, &told.refused}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	told.status = resp.StatusCode
	return told
}

// pays is a payment, as a client that takes tasks asks for it.
func (s *shop) pays(t *testing.T, capabilities, id string) told {
	t.Helper()
	return s.say(t, capabilities, "tools/call", "pay", map[string]any{"name": "pay", "arguments": map[string]any{"cents": 5}},
		map[string]any{"dev.sidecall/toolUseId": id, "dev.sidecall/conversationId": "c"})
}

// about is a request about a task.
func (s *shop) about(t *testing.T, method, id string) told {
	t.Helper()
	return s.say(t, takesTasks, "tasks/"+method, id, map[string]any{"taskId": id}, nil)
}

// until asks for a task until it is no longer at work.
func (s *shop) until(t *testing.T, id string) (now told) {
	t.Helper()
	harness.WaitFor(t, "the end of the task", func() bool {
		now = s.about(t, "get", id)
		return now.Status != "working"
	})
	return now
}

// A call that is long is answered by a handle, which is asked for until it has the result. The same
// call has the same handle, and when it has ended its result. It is paid once.
func TestALongCallIsATask(t *testing.T) {
	s := newShop(t)
	hold := make(chan struct{})
	s.slow.Store(&hold)
	first := s.pays(t, takesTasks, "toolu_1")
	if first.ResultType != "task" || first.Status != "working" || first.TaskID == "" || first.CreatedAt == "" || string(first.TTL) != "null" || first.Poll == 0 {
		t.Fatalf("the call is answered %+v", first)
	}
	if again := s.pays(t, takesTasks, "toolu_1"); again.TaskID != first.TaskID {
		t.Errorf("the same call is %+v", again)
	}
	for _, method := range []string{"get", "update", "cancel"} {
		if now := s.about(t, method, first.TaskID); now.ResultType != "complete" || method == "get" && now.Status != "working" {
			t.Errorf("%s: %+v", method, now)
		}
	}
	close(hold)
	end := s.until(t, first.TaskID)
	if end.Status != "completed" || end.Result == nil || end.Result.IsError || text(t, end.Result) != `{"payment":1}` {
		t.Errorf("it ended as %+v", end)
	}
	if again := s.pays(t, takesTasks, "toolu_1"); again.ResultType != "complete" || len(again.Content) != 1 || again.Content[0].Text != `{"payment":1}` {
		t.Errorf("after its end the call is answered %+v", again)
	}
	if now := s.about(t, "cancel", first.TaskID); now.ResultType != "complete" || now.refused.Code != 0 {
		t.Errorf("cancelled after its end: %+v", now)
	}
	if paid := s.paid.Load(); paid != 1 {
		t.Errorf("%d payments", paid)
	}
}

// A call that is short, and any of a client that takes no tasks, is answered by its result.
func TestWhatIsNoTask(t *testing.T) {
	s := newShop(t)
	if got := s.pays(t, takesTasks, "toolu_1"); got.ResultType != "complete" || got.Content[0].Text != `{"payment":1}` {
		t.Errorf("a short call: %+v", got)
	}
	hold := make(chan struct{})
	s.slow.Store(&hold)
	answered := make(chan told, 1)
	go func() { answered <- s.pays(t, takesNone, "toolu_2") }()
	long := s.pays(t, takesTasks, "toolu_2") // the same call, by a client that takes tasks
	close(hold)
	if got := <-answered; long.ResultType != "task" || got.ResultType != "complete" || got.Content[0].Text != `{"payment":2}` {
		t.Errorf("a client that takes no tasks: %+v", got)
	}
	if got := s.say(t, takesTasks, "tools/call", "pay", map[string]any{"name": "pay", "arguments": map[string]any{"cents": "x"}}, nil); got.ResultType != "complete" || !got.IsError {
		t.Errorf("wrong arguments: %+v", got)
	}
}

// A sidecar before another follows the task that the inner one answers with: its client, which takes
// none, gets the result.
func TestASidecarFollowsTheTaskOfAnother(t *testing.T) {
	inner := newShop(t)
	hold := make(chan struct{})
	inner.slow.Store(&hold)
	target, err := url.Parse(inner.url)
	if err != nil {
		t.Fatal(err)
	}
	release := sync.OnceFunc(func() { close(hold) })
	proxy := httputil.NewSingleHostReverseProxy(target)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tasks/get" {
			release() // it is followed
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(between.Close)
	t.Cleanup(between.CloseClientConnections)
	outer, _ := before(t, fmt.Sprintf(`backends: {inner: {trust: trusted, mcp: {url: %q, allow_private: true, protocol: "2026-07-28"}}}`, between.URL+"/mcp"))
	for _, revision := range revisions {
		res, err := outer.connect(t, revision, nil).CallTool(t.Context(), pay("toolu_1", 5))
		if err != nil || res.IsError || text(t, res) != `{"payment":1}` {
			t.Errorf("%s: %v, %v", revision, res, err)
		}
	}
	if paid := inner.paid.Load(); paid != 1 {
		t.Errorf("%d payments", paid)
	}
	select {
	case <-hold:
	default:
		t.Error("nothing was followed")
	}
}

// A handle that was made up, or changed, or is of another revision's client, is refused.
func TestHandlesAreLookedAt(t *testing.T) {
	s := newShop(t)
	hold := make(chan struct{})
	s.slow.Store(&hold)
	of := s.pays(t, takesTasks, "toolu_1").TaskID
	raw, err := base64.RawURLEncoding.DecodeString(of)
	if err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]string{
		"empty": "", "none": "x", "changed": string(of[0]^1) + of[1:], "long": strings.Repeat("A", 1<<10),
		"without its sum":               base64.RawURLEncoding.EncodeToString(raw[8:]),
		"of a call that knows no claim": resealed(t, raw, "claim", ""),
		"of another claim":              resealed(t, raw, "claim", "AAAAAAAAAAAAAAAA"),
		"of no call":                    resealed(t, raw, "id", "toolu_2"),
		"of another conversation":       resealed(t, raw, "conversation", "d"),
		"of an id that is none":         resealed(t, raw, "id", strings.Repeat("x", 600)),
	} {
		for _, method := range []string{"get", "update", "cancel"} {
			if got := s.about(t, method, id); got.refused.Code != -32602 {
				t.Errorf("%s, %s: %+v", name, method, got)
			}
		}
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		got := s.say(t, takesNone, method, of, map[string]any{"taskId": of}, nil)
		if got.refused.Code != -32021 || !strings.Contains(string(got.refused.Data), "io.modelcontextprotocol/tasks") {
			t.Errorf("%s of a client that takes none: %+v", method, got)
		}
		if got := s.say(t, takesTasks, method, "other", map[string]any{"taskId": of}, nil); got.refused.Code != -32020 || got.status != http.StatusBadRequest {
			t.Errorf("%s under another name: %+v", method, got)
		}
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		if got := s.say(t, takesTasks, method, of, map[string]any{"taskId": of}, nil); got.refused.Code != -32601 {
			t.Errorf("%s: %+v", method, got)
		}
	}
	close(hold)
	if end := s.until(t, of); end.Status != "completed" {
		t.Errorf("it ended as %+v", end)
	}
}

// sum8 is how a handle begins.
func sum8(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:8:8]
}

// resealed is a handle of which one member is another, with a sum that fits.
func resealed(t *testing.T, raw []byte, member, value string) string {
	t.Helper()
	var all map[string]string
	if err := json.Unmarshal(raw[8:], &all); err != nil {
		t.Fatal(err)
	}
	all[member] = value
	encoded, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(append(sum8(encoded), encoded...))
}

// A task of a tool without an effect goes on without its request, and is cancelled when its client
// says so. What has an effect goes on.
func TestATaskIsCancelled(t *testing.T) {
	began, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	hold := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-hold:
		}
		ended <- struct{}{}
	}))
	t.Cleanup(web.Close)
	s, _ := before(t, fmt.Sprintf(`
backends: {web: {http: {base_url: %q, allow_private: true}}}
tools:
  look: {backend: web, http: {method: GET, path: /}, effect: read_only, input_schema: {type: object}}
  act: {backend: web, http: {method: POST, path: /}, effect: non_idempotent, input_schema: {type: object}}
`, web.URL))
	call := func(name string) told {
		return s.say(t, takesTasks, "tools/call", name, map[string]any{"name": name, "arguments": map[string]any{}}, nil)
	}
	look := call("look")
	<-began
	if now := s.about(t, "get", look.TaskID); now.Status != "working" {
		t.Errorf("its request has ended, and it is %+v", now)
	}
	if ack := s.about(t, "cancel", look.TaskID); ack.ResultType != "complete" {
		t.Errorf("cancelled: %+v", ack)
	}
	<-ended
	if end := s.until(t, look.TaskID); end.Status != "cancelled" {
		t.Errorf("it ended as %+v", end)
	}
	act := call("act")
	<-began
	s.about(t, "cancel", act.TaskID)
	if now := s.about(t, "get", act.TaskID); now.Status != "working" {
		t.Errorf("what has an effect is %+v", now)
	}
	close(hold)
	<-ended
	if end := s.until(t, act.TaskID); end.Status != "completed" {
		t.Errorf("it ended as %+v", end)
	}
}

// A handle answers after a restart of the sidecar: as the call has ended meanwhile, or that nobody
// knows what became of it.
func TestAHandleOutlivesItsSidecar(t *testing.T) {
	hold, began := make(chan struct{}), make(chan struct{}, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		<-hold
		_, _ = io.WriteString(w, `{"did":1}`)
	}))
	t.Cleanup(web.Close)
	dir, state, address := harness.ShortDir(t), t.TempDir(), harness.FreePort(t)
	start := func() *Sidecar {
		return started(t, parsed(t, fmt.Sprintf(`
listen: [%q]
admin: off
http: %q
store: {embedded: {path: %q}}
backends: {web: {http: {base_url: %q, allow_private: true}}}
tools: {act: {backend: web, http: {method: POST, path: /}, effect: non_idempotent, input_schema: {type: object}}}
`, "unix://"+filepath.Join(dir, "s.sock"), address, filepath.Join(state, "state.db"), web.URL)), quiet())
	}
	one := start()
	s := &shop{url: "http://" + address}
	act := s.say(t, takesTasks, "tools/call", "act", map[string]any{"name": "act", "arguments": map[string]any{}}, nil)
	<-began
	if act.ResultType != "task" {
		t.Fatalf("the call is answered %+v", act)
	}
	close(hold)
	if end := s.until(t, act.TaskID); end.Status != "completed" {
		t.Errorf("it ended as %+v", end)
	}
	if err := one.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	two := start()
	t.Cleanup(func() {
		if err := two.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if end := s.about(t, "get", act.TaskID); end.Status != "completed" || text(t, end.Result) != `{"did":1}` {
		t.Errorf("after a restart it is %+v", end)
	}
}
