//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// longArguments are of a size that a request may have.
const longArguments = 3 << 20

// brief is an upstream that reads no long body, as most are.
func brief(t *testing.T, effects *atomic.Int64) (url string) {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args map[string]string
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&args); err != nil && r.ContentLength > 0 {
			http.Error(w, "the body is too long", http.StatusRequestEntityTooLarge)
			return
		}
		effects.Add(1)
		_, _ = w.Write([]byte("done")) // who does not read it is seen below
	}))
	t.Cleanup(up.Close)
	return up.URL
}

// TestArgumentsThatAreTooLargeForWhatComesAfter are valid, and more than a URL, an
// upstream or a command takes. Each costs its own result and not the batch.
func TestArgumentsThatAreTooLargeForWhatComesAfter(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		var effects atomic.Int64
		url := brief(t, &effects)
		text := `input_schema: {type: object, properties: {text: {type: string}}, required: [text]}`
		s := harness.Start(t, store+fmt.Sprintf(`
backends:
  up: {http: {base_url: %q, allow_private: true}}
  sh: {exec: {env: [PATH]}}
tools:
  in_path: {backend: up, %[2]s, http: {method: POST, path: "/act/{text}"}}
  in_query: {backend: up, %[2]s, http: {method: POST, path: /act, query: {text: text}}}
  in_body: {backend: up, %[2]s, http: {method: POST, path: /act}}
  unread: {backend: sh, %[2]s, exec: {argv: [echo, done]}}
`, url, text))
		for _, tt := range []struct{ tool, code, says string }{
			{"in_path", "INVALID_ARGS", "16384 bytes"},
			{"in_query", "INVALID_ARGS", "16384 bytes"},
			{"in_body", "UNRECOVERABLE", "413"},
			{"unread", "", "done"}, // a command that does not care for its input
		} {
			t.Run(tt.tool, func(t *testing.T) {
				before := effects.Load()
				batch := &sidecallv1.ExecuteToolsRequest{}
				for _, text := range []string{"a", strings.Repeat("x", longArguments), "b"} {
					batch.Calls = append(batch.Calls, &sidecallv1.ExecuteToolRequest{
						ToolUseId: fmt.Sprint(tt.tool, len(batch.GetCalls())), ToolName: tt.tool, ArgumentsJson: fmt.Sprintf(`{"text":%q}`, text),
					})
				}
				for range 2 {
					res, err := s.Client.ExecuteTools(t.Context(), batch)
					if err != nil || len(res.GetResults()) != 3 {
						t.Fatalf("%d results, %v", len(res.GetResults()), err)
					}
					for i, one := range res.GetResults() {
						if want := batch.GetCalls()[i].GetToolUseId(); one.GetToolUseId() != want {
							t.Errorf("result %d is that of %s", i, one.GetToolUseId())
						}
						if i != 1 && one.GetContent() != "done" && !strings.Contains(one.GetContent(), "done\n") {
							t.Errorf("its neighbour %d got %.300s", i, one.GetContent())
						}
					}
					if large := res.GetResults()[1]; code(large) != tt.code || !strings.Contains(large.GetContent(), tt.says) || len(large.GetContent()) > 4<<10 {
						t.Errorf("%s: %.500s", code(large), large.GetContent())
					}
				}
				if n := effects.Load() - before; tt.tool != "unread" && n != 2 {
					t.Errorf("%d effects of two calls that could be made", n)
				}
			})
		}
	})
}
