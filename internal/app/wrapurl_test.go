package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/config"
)

// echoing is an MCP server that shows who calls it: its credential stands in all that it says.
func echoing(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		says := r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","instructions":%q}}`, m.ID, says)
		case "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"who","description":%q,"inputSchema":{"type":"object"}}]}}`, m.ID, says)
		case "tools/call":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}],"_meta":{"key":%s}}}`, m.ID, "you are "+says, strings.TrimPrefix(says, "Bearer "))
		default:
			fmt.Fprintf(w, `{"says": %q}`, says)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A credential that a wrapper is given for a server is shown to nobody, whatever the server says of it, as a number too;
// and a URL reaches no private address unless that is allowed.
func TestAWrapperOfAURLKeepsItsSecrets(t *testing.T) {
	const secret = "31415926535897932384"
	t.Setenv("SIDECALL_TEST_TOKEN", secret)
	t.Chdir(t.TempDir())
	for _, allowed := range []bool{true, false} {
		cfg, err := config.Parse("test.yaml", fmt.Appendf(nil, `
identity: {require: []}
store: {embedded: {path: %q}}
default_profile: wrap
profiles: {wrap: {}}
backends: {server: {mcp: {url: %q, headers: {Authorization: "Bearer ${env:SIDECALL_TEST_TOKEN}"}, allow_private: %v}, trust: trusted}}
`, filepath.Join(t.TempDir(), "wrap.db"), echoing(t), allowed), config.System())
		if err != nil {
			t.Fatal(err)
		}
		said, logged := wrappedSession(t, cfg)
		if strings.Contains(said+logged, secret) {
			t.Errorf("allowed %v: the secret is told:\n%s\n%s", allowed, said, logged)
		}
		if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
			t.Errorf("it leaves %v where it was started, %v", left, err)
		}
		if want := "you are (redacted)"; strings.Contains(said, want) != allowed {
			t.Errorf("allowed %v: %s", allowed, said)
		}
		if want := "allow_private"; strings.Contains(said, want) == allowed {
			t.Errorf("allowed %v: %s", allowed, said)
		}
	}
}

// wrappedSession is what a client is told that greets a server, calls its tool and asks for what is none.
func wrappedSession(t *testing.T, cfg *config.Config) (said, logged string) {
	t.Helper()
	var log strings.Builder
	in, client := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Wrapper{Config: cfg, Tenant: "wrap", In: in, Out: out}.Serve(t.Context(), Options{Log: slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})})
		_ = out.Close()
	}()
	from := bufio.NewScanner(answers)
	for i, line := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who","arguments":{}}}`, `{"jsonrpc":"2.0","id":2,"method":"other"}`,
	} {
		fmt.Fprintln(client, line)
		if i != 1 {
			from.Scan()
			said += from.Text() + "\n"
		}
	}
	_ = client.Close()
	for from.Scan() { // to its end
		said += from.Text() + "\n"
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	return said, log.String()
}
