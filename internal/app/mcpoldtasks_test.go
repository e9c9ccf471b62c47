package app

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// sessionClient is a client of 2025-11-25 that asks for tasks.
type sessionClient struct {
	t   *testing.T
	url string
	id  string
	// tasks is what the server says of them among its capabilities.
	tasks string
}

func openSession(t *testing.T, s *shop, revision string) *sessionClient {
	t.Helper()
	c := &sessionClient{t: t, url: s.url + "/mcp"}
	var opened struct {
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	c.send("initialize", map[string]any{"protocolVersion": revision, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}}, &opened)
	c.tasks = string(opened.Capabilities["tasks"])
	c.send("notifications/initialized", map[string]any{}, nil)
	return c
}

// send sends a message, whose answer goes into result; an error of JSON-RPC is returned.
func (c *sessionClient) send(method string, params map[string]any, result any) (refused struct {
	Code    int
	Message string
}) {
	c.t.Helper()
	message := map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
	if result != nil {
		message["id"] = 1
	}
	body, err := json.Marshal(message)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.id != "" {
		req.Header.Set("Mcp-Session-Id", c.id)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	c.id = cmp.Or(resp.Header.Get("Mcp-Session-Id"), c.id)
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if result == nil {
		return refused
	}
	if at := bytes.LastIndex(text, []byte("data: {")); at >= 0 {
		text = text[at+len("data: "):]
	}
	answer := struct{ Result, Error any }{result, &refused}
	if err := json.Unmarshal(text, &answer); err != nil {
		c.t.Fatalf("%s: %v", text, err)
	}
	return refused
}

// oldTold is a task, or a result, as 2025-11-25 has it.
type oldTold struct {
	Task *struct {
		TaskID string `json:"taskId"`
		Status string `json:"status"`
	} `json:"task"`
	TaskID  string          `json:"taskId"`
	Status  string          `json:"status"`
	TTL     json.RawMessage `json:"ttl"`
	Poll    int             `json:"pollInterval"`
	IsError bool            `json:"isError"`
	Content []struct{ Text string }
	Meta    map[string]any `json:"_meta"`
}

// task begins a payment as a task.
func (c *sessionClient) task(name, id string, arguments map[string]any) (id1, status string) {
	c.t.Helper()
	var got oldTold
	refused := c.send("tools/call", map[string]any{"name": name, "arguments": arguments, "task": map[string]any{"ttl": 60000}, "_meta": map[string]any{"dev.sidecall/toolUseId": id}}, &got)
	if got.Task == nil {
		c.t.Fatalf("no task: %+v, %+v", got, refused)
	}
	return got.Task.TaskID, got.Task.Status
}

func (c *sessionClient) about(method, id string) (got oldTold, code int) {
	c.t.Helper()
	refused := c.send("tasks/"+method, map[string]any{"taskId": id}, &got)
	return got, refused.Code
}

// A client of 2025-11-25 that asks for a task gets one at once, and its result by tasks/result, which
// waits for it.
func TestATaskThatWasAskedFor(t *testing.T) {
	s := newShop(t)
	c := openSession(t, s, "2025-11-25")
	if c.tasks != `{"cancel":{},"requests":{"tools":{"call":{}}}}` {
		t.Errorf("the server offers %s", c.tasks)
	}
	var listed struct {
		Tools []struct {
			Name      string
			Execution struct{ TaskSupport string }
		}
	}
	c.send("tools/list", map[string]any{}, &listed)
	for _, tool := range listed.Tools {
		if tool.Execution.TaskSupport != "optional" {
			t.Errorf("%s as a task: %q", tool.Name, tool.Execution.TaskSupport)
		}
	}
	if len(listed.Tools) == 0 {
		t.Error("there are no tools")
	}
	hold := make(chan struct{})
	s.slow.Store(&hold)
	id, status := c.task("pay", "p1", map[string]any{"cents": 5})
	again, _ := c.task("pay", "p1", map[string]any{"cents": 5})
	if status != "working" || again != id {
		t.Errorf("it is %s, and again it is %s, not %s", status, again, id)
	}
	if now, _ := c.about("get", id); now.TaskID != id || now.Status != "working" || string(now.TTL) != "null" || now.Poll == 0 {
		t.Errorf("it is %+v", now)
	}
	if _, code := c.about("cancel", id); code != -32603 {
		t.Errorf("a payment is cancelled: %d", code)
	}
	ended := make(chan oldTold, 1)
	go func() {
		got, _ := c.about("result", id)
		ended <- got
	}()
	close(hold)
	got := <-ended
	related, _ := got.Meta["io.modelcontextprotocol/related-task"].(map[string]any)
	if got.IsError || len(got.Content) != 1 || got.Content[0].Text != `{"payment":1}` || related["taskId"] != id {
		t.Errorf("its result is %+v", got)
	}
	if now, _ := c.about("get", id); now.Status != "completed" {
		t.Errorf("at its end it is %+v", now)
	}
	if _, code := c.about("cancel", id); code != -32602 {
		t.Errorf("cancelled after its end: %d", code)
	}
	if short, status := c.task("pay", "p1", map[string]any{"cents": 5}); short != id || status != "completed" {
		t.Errorf("the same call after its end: %s, %s", short, status)
	}
	var other oldTold // under its id, which is the result of another payment
	refused := c.send("tools/call", map[string]any{"name": "pay", "arguments": map[string]any{"cents": 50}, "task": map[string]any{}, "_meta": map[string]any{"dev.sidecall/toolUseId": "p1"}}, &other)
	if refused.Code != -32602 || other.Task != nil || !strings.Contains(refused.Message, "was used before") {
		t.Errorf("another payment under the same id: %+v, %+v", other, refused)
	}
	if paid := s.paid.Load(); paid != 1 {
		t.Errorf("%d payments", paid)
	}
}

// A call that was made, and of which nothing is recorded, is no task: what it has returned is not lost.
func TestWhatIsOnlyObservedIsNoTask(t *testing.T) {
	s := newShop(t, "profiles: {all: {mode: observe}}", "default_profile: all", "observe: {file: "+filepath.Join(t.TempDir(), "observed.jsonl")+"}")
	c := openSession(t, s, "2025-11-25")
	var got oldTold
	refused := c.send("tools/call", map[string]any{"name": "pay", "arguments": map[string]any{"cents": 5}, "task": map[string]any{}}, &got)
	if s.paid.Load() != 1 || got.IsError || len(got.Content) != 1 || got.Content[0].Text != `{"payment":1}` {
		t.Errorf("%d payments, %+v, %+v", s.paid.Load(), got, refused)
	}
}

// A client may offer in its handshake the revision that has none: what it agrees to counts.
func TestAHandshakeThatOffersTheStatelessRevision(t *testing.T) {
	c := openSession(t, newShop(t), "2026-07-28")
	if c.tasks == "" {
		t.Error("it is offered no tasks")
	}
	if _, status := c.task("pay", "p1", map[string]any{"cents": 5}); status == "" {
		t.Error("it gets no task")
	}
}

// What has not begun is no task, and what is not offered is not there.
func TestWhatIsNoTaskIn2025(t *testing.T) {
	s := newShop(t)
	c := openSession(t, s, "2025-11-25")
	for name, arguments := range map[string]map[string]any{"pay": {"cents": "x"}, "nothing": {}} {
		var got oldTold
		refused := c.send("tools/call", map[string]any{"name": name, "arguments": arguments, "task": map[string]any{}}, &got)
		if refused.Code != -32602 {
			t.Errorf("%s: %+v, %+v", name, got, refused)
		}
	}
	for method, want := range map[string]int{"get": -32602, "result": -32602, "cancel": -32602, "update": -32601} {
		if _, code := c.about(method, "x"); code != want {
			t.Errorf("%s of no task: %d, want %d", method, code, want)
		}
	}
	held, status := c.task("pay", "h", map[string]any{"cents": 500})
	if got, _ := c.about("result", held); status != "failed" || !got.IsError || !strings.Contains(got.Content[0].Text, "APPROVAL_REQUIRED") {
		t.Errorf("a call that a person has to allow: %s, %+v", status, got)
	}
	var plain oldTold
	c.send("tools/call", map[string]any{"name": "pay", "arguments": map[string]any{"cents": 5, "task": 1}}, &plain)
	if len(plain.Content) != 1 {
		t.Errorf("an argument is taken for a wish: %+v", plain)
	}
	older := openSession(t, s, "2025-06-18")
	if older.tasks != "" {
		t.Errorf("2025-06-18 is offered %s", older.tasks)
	}
	plain = oldTold{}
	older.send("tools/call", map[string]any{"name": "pay", "arguments": map[string]any{"cents": 5}, "task": map[string]any{}}, &plain)
	if len(plain.Content) != 1 {
		t.Errorf("in 2025-06-18 a wish is heard: %+v", plain)
	}
	if _, code := older.about("get", "x"); code != -32601 {
		t.Errorf("tasks/get of 2025-06-18: %d", code)
	}
}

// A task of a tool without an effect is cancelled, and one that fails has failed.
func TestTheEndsOfATaskIn2025(t *testing.T) {
	began := make(chan struct{}, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			began <- struct{}{}
			<-r.Context().Done()
			return
		}
		http.Error(w, "no", http.StatusBadRequest)
	}))
	t.Cleanup(web.Close)
	s, _ := before(t, fmt.Sprintf(`
backends: {web: {http: {base_url: %q, allow_private: true}}}
tools:
  look: {backend: web, http: {method: GET, path: /}, effect: read_only, input_schema: {type: object}}
  act: {backend: web, http: {method: POST, path: /}, effect: non_idempotent, input_schema: {type: object}}
`, web.URL))
	c := openSession(t, s, "2025-11-25")
	look, _ := c.task("look", "l", map[string]any{})
	<-began
	if end, code := c.about("cancel", look); code != 0 || end.Status != "cancelled" || end.TaskID != look || string(end.TTL) != "null" {
		t.Errorf("cancelled: %+v, %d", end, code)
	}
	if got, _ := c.about("result", look); !got.IsError {
		t.Errorf("the result of a cancelled one is %+v", got)
	}
	act, _ := c.task("act", "a", map[string]any{})
	got, _ := c.about("result", act)
	if end, _ := c.about("get", act); end.Status != "failed" || !got.IsError {
		t.Errorf("it ended as %+v, with %+v", end, got)
	}
}

// Who cancels what has an effect is told that it goes on, and not that somebody's time is over.
func TestWhatHasAnEffectGoesOnIn2025(t *testing.T) {
	began, hold := make(chan struct{}, 4), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		<-hold
	}))
	t.Cleanup(web.Close)
	defer close(hold)
	s, _ := before(t, fmt.Sprintf(`
backends: {web: {http: {base_url: %q, allow_private: true}}}
tools:
  act: {backend: web, http: {method: POST, path: /}, effect: non_idempotent, input_schema: {type: object}}
`, web.URL))
	var clients sync.WaitGroup
	for range cap(began) {
		clients.Go(func() {
			c := openSession(t, s, "2025-11-25")
			act, _ := c.task("act", "a", map[string]any{})
			<-began
			var end oldTold
			if refused := c.send("tasks/cancel", map[string]any{"taskId": act}, &end); !strings.Contains(refused.Message, "goes on") {
				t.Errorf("%+v, %+v", refused, end)
			}
		})
	}
	clients.Wait()
}

// A task has no request any more by which its client could be asked.
func TestATaskAsksNobodyIn2025(t *testing.T) {
	a, s, _ := beforeAsking(t)
	c := openSession(t, s, "2025-11-25")
	id, _ := c.task("elicit", "e", map[string]any{"hold": true})
	close(a.hold)
	if got, _ := c.about("result", id); len(got.Content) != 1 || !strings.Contains(got.Content[0].Text, "cannot be asked") {
		t.Errorf("its result is %+v", got)
	}
}
