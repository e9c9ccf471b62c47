//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// picturesEnv names the directory that gets pictures of the pages; none without it.
const picturesEnv = "SIDECALL_E2E_PICTURES"

// longestSocket is how long the path of a socket may be, in bytes.
const longestSocket = 107

// longTool is as long as a tool's name may be.
var longTool = strings.Repeat("t", 64)

var consoleConfig = `
store: {embedded: {path: s.db}}
backends: {sh: {exec: {env: [PATH]}}}
default_profile: code
profiles: {code: {}}
tools:
  refund:
    backend: sh
    exec: {argv: [sh, -c, 'cat >/dev/null; echo "{\"id\":\"r-77\"}"']}
    input_schema: {type: object, properties: {order_id: {type: string}, cents: {type: integer}}, required: [order_id, cents]}
    approve_when: "args.cents > 1000"
  charge:
    backend: sh
    attempt_timeout: 200ms
    exec: {argv: [sleep, "60"]}
    input_schema: {type: object, properties: {order_id: {type: string}}, required: [order_id]}
  ` + longTool + `:
    backend: sh
    attempt_timeout: 200ms
    exec: {argv: [sleep, "60"]}
    input_schema: {type: object}
  get_order:
    backend: sh
    effect: read_only
    exec: {argv: [sh, -c, 'cat >/dev/null; exit 3'], exit_codes: {3: {code: NOT_FOUND}}}
    input_schema: {type: object, properties: {order_id: {type: string}}, required: [order_id]}
`

// A person answers "did it run?" in a real browser, resolves what is unknown and allows what
// waits: see node/console.mjs for what is done and looked at there.
func TestAPersonAtTheConsole(t *testing.T) {
	t.Parallel()
	s := harness.New(t, strings.Replace(consoleConfig, "s.db", filepath.Join(t.TempDir(), "s.db"), 1))
	s.Run()
	call := func(id, name, arguments string) *sidecallv1.ExecuteToolResponse {
		return s.Call(&sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: name, ArgumentsJson: arguments, ConversationId: "c1", TurnId: "t-" + id})
	}
	call("toolu_ran", "refund", `{"order_id":"A-77","cents":500}`)
	call("toolu_lost", "charge", `{"order_id":"A-77"}`)
	call("toolu_miss", "get_order", `{"order_id":"A-1"}`)
	call("toolu_held", "refund", `{"order_id":"A-78","cents":5000}`)
	// Words without a place to break them, wherever the pages show a word.
	long := strings.Repeat("w", 200)
	for _, name := range []string{"refund", "charge", longTool} {
		s.Call(&sidecallv1.ExecuteToolRequest{
			ToolUseId: name + long, ToolName: name, ArgumentsJson: `{"order_id":"` + long + `","cents":5000}`,
			ConversationId: long, TurnId: long, PromptId: long, Labels: map[string]string{"user": long},
		})
	}
	operator := filepath.Dir(strings.TrimPrefix(s.Operator, "unix://")) + "/"
	operator += strings.Repeat("o", longestSocket-len(operator))
	if err := os.Symlink("op.sock", operator); err != nil {
		t.Fatal(err)
	}

	console := exec.CommandContext(context.WithoutCancel(t.Context()), harness.Binary(t), "console", "--addr", "unix://"+operator, "--by", "ada")
	console.Stderr = os.Stderr
	out, err := console.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := console.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := console.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := console.Wait(); err != nil {
			t.Errorf("the console, asked to end: %v", err)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}

	browser := exec.CommandContext(t.Context(), "node", filepath.Join(harness.Root(), "test", "e2e", "node", "console.mjs"), strings.TrimSpace(url), os.Getenv(picturesEnv))
	var said strings.Builder
	browser.Stderr = &said
	steps, err := browser.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := browser.Start(); err != nil {
		t.Fatal(err)
	}
	last := ""
	for scanner := bufio.NewScanner(steps); scanner.Scan(); {
		if last = scanner.Text(); last == "ready for another call" {
			call("toolu_more", "charge", `{"order_id":"A-79"}`)
		}
	}
	if err := browser.Wait(); err != nil || last != "done" {
		t.Fatalf("%v, after %q:\n%s", err, last, said.String())
	}
	// What was allowed there runs, once; what was resolved is told as that.
	first, again := call("toolu_held", "refund", `{"order_id":"A-78","cents":5000}`), call("toolu_held", "refund", `{"order_id":"A-78","cents":5000}`)
	if first.GetIsError() || first.GetReplayed() || !again.GetReplayed() || first.GetApproval().GetClaimedBy() != "ada" {
		t.Errorf("what was allowed: %v, %v", first, again)
	}
	if lost := call("toolu_lost", "charge", `{"order_id":"A-77"}`); lost.GetResolution().GetClaimedBy() != "ada" || !lost.GetReplayed() {
		t.Errorf("what was resolved: %v", lost)
	}
}
