package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// The tool runs, and then an HTTP error speaks of a session: only what cannot be
// a handler's answer is believed to mean that the call was refused.
func TestOnlyTheTransportsWordsProveThatTheSessionIsGone(t *testing.T) {
	const rpc = `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`
	answered := func(id string, code int, message string) string { return fmt.Sprintf(rpc, id, code, message) }
	type proven struct {
		code      tool.Code
		evidence  tool.Evidence
		errorType string
	}
	gone := proven{tool.CodeDependencyUnavailable, tool.NotExecuted, "session_expired"}
	doubted := proven{tool.CodeDependencyUnavailable, tool.Ambiguous, "session_expired"}
	refusal := func(code string) proven { return proven{tool.CodeUnrecoverable, tool.Ambiguous, code} }
	for name, tt := range map[string]struct {
		status int
		body   string // ID stands for the id of the request
		want   proven
	}{
		"official TypeScript example":  {400, answered("null", -32000, "Bad Request: No valid session ID provided"), gone},
		"official Python SDK":          {400, answered("null", -32600, "Bad Request: Missing session ID"), gone},
		"old official Python SDK":      {400, answered(`"server-error"`, -32600, "Bad Request: Missing session ID"), gone},
		"a header lost on the way":     {400, answered(`""`, -32000, "Bad Request: Mcp-Session-Id header is required"), gone},
		"mcp-go":                       {400, "Invalid session ID\n", gone},
		"no id at all":                 {400, `{"error":{"code":-32600,"message":"Invalid or missing session ID"}}`, gone},
		"404 in plain text":            {404, "session not found", gone},
		"404 without an id":            {404, answered("null", -32001, "Session not found"), gone},
		"404, terminated":              {404, answered("null", -32600, "Not Found: Session has been terminated"), gone},
		"404, old official Python SDK": {404, answered(`"server-error"`, -32600, "Not Found: Invalid or expired session ID"), gone},
		"404 of mcp-go":                {404, "Session terminated\n", gone},

		"404 of a gateway":             {404, `{"id":"req-7","message":"no route"}`, doubted},
		"404 of an ingress":            {404, "<html><head><title>404 Not Found</title></head><body><center>nginx</center></body></html>", doubted},
		"404 of a load balancer":       {404, "default backend - 404", doubted},
		"404 of a mux":                 {404, "404 page not found\n", doubted},
		"404 of a web framework":       {404, `{"detail":"Not Found"}`, doubted},
		"404 without a word":           {404, "", doubted},
		"404 about something else":     {404, answered("null", -32601, "Method not found"), doubted},
		"404 while the session closes": {404, "session is closing\n", doubted},
		"404 that goes on and on":      {404, "session not found" + strings.Repeat(", but captured", 20), doubted},

		"a handler's own answer":                {400, `{"id":ID,"error":{"message":"checkout session closed after capture"}}`, refusal("0")},
		"an answer in the SDK's words":          {400, answered("ID", -32000, "Bad Request: No valid session ID provided"), refusal("-32000")},
		"a handler's own, about an argument":    {400, answered("ID", -32602, "session id must be a number"), proven{tool.CodeInvalidArgs, tool.Ambiguous, "-32602"}},
		"the answer of a handler with 404":      {404, answered("ID", -32001, "checkout session not found"), doubted},
		"an answer whose error is a text":       {400, `{"id":ID,"error":"session closed after capture"}`, doubted},
		"an answer whose error is a text, 404":  {404, `{"id":ID,"error":"session closed after capture"}`, doubted},
		"an answer that is cut off":             {404, `{"id":ID,"error":{"message":"sess`, doubted},
		"other words about a session, no id":    {400, answered("null", -32000, "checkout session closed after capture"), doubted},
		"the words in the middle":               {400, "captured; invalid session ID for the receipt", doubted},
		"a page that speaks of another session": {400, "<html>your login session has ended", doubted},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, mcp.StreamableHTTPOptions{})
			r := run(t, s.config(t))
			r.up()
			old := r.current()
			s.before(func(w http.ResponseWriter, req *http.Request, body string) bool {
				if !isCall(body) {
					return false
				}
				var sent struct {
					ID json.RawMessage `json:"id"`
				}
				if err := json.Unmarshal([]byte(body), &sent); err != nil {
					t.Error(err)
				}
				s.inner.ServeHTTP(httptest.NewRecorder(), req)
				w.WriteHeader(tt.status)
				fmt.Fprint(w, strings.Replace(tt.body, "ID,", string(sent.ID)+",", 1))
				return true
			})
			_, f := r.Invoke(context.Background(), backend.Invocation{Target: "pay", Args: []byte(`{}`), Effect: tool.NonIdempotent})
			wantFailure(t, f, tt.want.code, tt.want.evidence, tt.want.errorType)
			if n := s.posts.Load(); n != 1 {
				t.Errorf("sent %d times", n)
			}
			select {
			case <-old.expired:
			default:
				if !strings.Contains(name, "a handler's own") {
					t.Error("the session is kept")
				}
				return
			}
			if strings.Contains(name, "a handler's own") {
				t.Error("the session is given up")
			}
			waitFor(t, "another session", func() bool {
				now := r.state.Load().session
				return now != nil && now != old
			})
		})
	}
}
