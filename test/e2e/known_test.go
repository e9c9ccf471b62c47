//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// rewrite changes the config of a sidecar that is down.
func rewrite(t *testing.T, s *harness.Sidecar, old, now string) {
	t.Helper()
	text, err := os.ReadFile(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.ReplaceAll(string(text), old, now)
	if changed == string(text) {
		t.Fatalf("the config has no %q", old)
	}
	if err := os.WriteFile(s.Config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A call is known by its id, whatever has changed between a kill -9 and the next
// start: its tool renamed, an argument required that it did not have, the profile
// narrowed.
func TestAKnownIDIsAnsweredFromItsRecord(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		const act = "act: {backend: up"
		const schema = "input_schema: {type: object, properties: {key: {type: string}}}"
		s := harness.Start(t, strings.Replace(up.tools(store), act, "act: {"+schema+", backend: up", 1)+"profiles:\n  all: {tools: ['*']}\ndefault_profile: all\n")
		up.Script("/act", upstream.Echo())
		done := s.Call(callOf("done"))
		up.Script("/act", upstream.CloseAfter())
		unknown := s.Call(callOf("unknown"))
		if done.GetIsError() || unknown.GetError().GetCode() != "OUTCOME_UNKNOWN" {
			t.Fatalf("%v\n%v", done, unknown)
		}
		up.Script("/act", upstream.Echo())
		narrow := func(tools string) string { return "all: {tools: [" + tools + "]}" }
		for _, change := range [][2]string{
			{act[:5], "act_now: "},
			{"act_now: ", act[:5]}, // as it was, for the next one
			{schema, schema[:len(schema)-1] + ", required: [key, cents]}"},
			{narrow("'*'"), narrow("look")},
		} {
			s.Kill()
			rewrite(t, s, change[0], change[1])
			s.Run()
			if again := s.Call(callOf("done")); !again.GetReplayed() || again.GetContent() != done.GetContent() {
				t.Errorf("%q: the call that is done got %v", change[1], again)
			}
			if again := s.Call(callOf("unknown")); !again.GetReplayed() || again.GetContent() != unknown.GetContent() {
				t.Errorf("%q: the call of unknown outcome got %v", change[1], again)
			}
		}
		if res := s.Call(callOf("new")); res.GetError().GetCode() != "PERMISSION_DENIED" {
			t.Errorf("a new one got %v", res)
		}
		for _, id := range []string{"done", "unknown"} {
			if n := up.Ledger.Executions(id); n != 1 {
				t.Errorf("%s: %d executions", id, n)
			}
		}
	})
}

// Over MCP it is known before its server is discovered again, and when there is
// none any more.
func TestAKnownIDIsAnsweredBeforeDiscovery(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		server := startHTTPServer(t, freePort(t))
		s := harness.Start(t, store+"lease: 2s\n"+inYAML(t, map[string]any{"backends": map[string]any{
			"every": with(server.backend(), "tools", map[string]any{fetch: map[string]any{"attempt_timeout": "10m", "deadline": "10m"}}),
		}}))
		harness.WaitFor(t, "the tools of the server", func() bool { return serves(t, s, "echo") })
		echo := &sidecallv1.ExecuteToolRequest{ToolUseId: "done", ToolName: "echo", ArgumentsJson: `{"message":"charged"}`}
		done := s.Call(echo)
		if done.GetIsError() || !strings.Contains(done.GetContent(), "charged") {
			t.Fatal(done)
		}
		g := startGate(t)
		lost := &sidecallv1.ExecuteToolRequest{
			ToolUseId: "unknown", ToolName: fetch, ArgumentsJson: fmt.Sprintf(`{"name":"a.gz","data":%q,"outputType":"resource"}`, g.URL),
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = execute(t, s, lost) // the sidecar is killed
		}()
		<-g.arrived
		s.Kill()
		server.kill()
		<-ended
		s.Run()
		if again := s.Call(echo); !again.GetReplayed() || again.GetContent() != done.GetContent() {
			t.Errorf("the call that is done got %v", again)
		}
		harness.WaitFor(t, "the claim of the one that was killed to end", func() bool {
			return s.Call(lost).GetError().GetCode() == "OUTCOME_UNKNOWN"
		})
		echo.ToolUseId = "new"
		if res := s.Call(echo); res.GetError().GetCode() != "DEPENDENCY_UNAVAILABLE" && res.GetError().GetCode() != "UNKNOWN_TOOL" {
			t.Errorf("a new one got %v", res)
		}
		if n := g.effects.Load(); n != 1 {
			t.Errorf("%d requests at the gate", n)
		}
	})
}
