//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// asTaskClient sends a request to a front as a client that takes tasks, and returns its result.
func asTaskClient(t *testing.T, address, method, name, params string) (result map[string]any) {
	t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, params, meta)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/mcp", strings.NewReader(body))
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
	var answer struct{ Result map[string]any }
	if err := json.Unmarshal(text, &answer); err != nil || answer.Result == nil {
		t.Fatalf("%s is answered %s, %v", method, text, err)
	}
	return answer.Result
}

// A handle is asked for after its sidecar was killed: nobody knows whether a call that was under way
// had its effect, and that is said, as that it was done is of one that had ended.
func TestAHandleOutlivesAKill(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		began, hold := make(chan struct{}, 2), make(chan struct{})
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			began <- struct{}{}
			<-hold
			_, _ = io.WriteString(w, `{"did":1}`)
		}))
		t.Cleanup(web.Close)
		address := harness.FreePort(t)
		s := harness.Start(t, store+fmt.Sprintf(`
http: %s
lease: 2s
backends: {web: {http: {base_url: %q, allow_private: true}}}
tools: {act: {backend: web, http: {method: POST, path: /}, input_schema: {type: object}}}
`, address, web.URL))
		act := func() string {
			task := asTaskClient(t, address, "tools/call", "act", `"name":"act","arguments":{}`)
			if <-began; task["resultType"] != "task" {
				t.Fatalf("the call is answered %v", task)
			}
			return task["taskId"].(string)
		}
		get := func(id string) map[string]any {
			return asTaskClient(t, address, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
		}
		done := act()
		hold <- struct{}{}
		harness.WaitFor(t, "the end of the first", func() bool { return get(done)["status"] == "completed" })
		lost := act()
		s.Kill()
		close(hold)
		s.Run()
		var end map[string]any
		harness.WaitFor(t, "the end of the other", func() bool {
			end = get(lost)
			return end["status"] != "working"
		})
		if text := fmt.Sprint(end); end["status"] == "completed" && end["result"].(map[string]any)["isError"] != true || !strings.Contains(text, "OUTCOME_UNKNOWN") {
			t.Errorf("what was under way is %v", end)
		}
		if end := get(done); end["status"] != "completed" || !strings.Contains(fmt.Sprint(end["result"]), `"did":1`) {
			t.Errorf("what was done is %v", end)
		}
	})
}
