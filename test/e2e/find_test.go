//go:build e2e

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/notify"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// foundTools are tools of which one is killed with its sidecar.
const foundTools = `
backends: {sh: {exec: {env: [PATH]}}}
tools:
  refund:
    backend: sh
    exec: {argv: [sh, -c, 'cat >/dev/null; echo "{\"id\":\"r-77\"}"']}
    input_schema: {type: object, properties: {order_id: {type: string}, card: {type: string, writeOnly: true}}, required: [order_id]}
    search_keys: [order_id, card]
    compensate_with: {tool: cancel, args: {refund_id: result.id}}
  cancel:
    backend: sh
    exec: {argv: [sh, -c, 'cat >/dev/null; echo cancelled']}
    input_schema: {type: object, properties: {refund_id: {type: string}}, required: [refund_id]}
  charge:
    backend: sh
    exec: {argv: [sleep, "60"]}
    input_schema: {type: object, properties: {order_id: {type: string}}, required: [order_id]}
`

// The question of the night, on both stores: by an argument, also a sensitive one, by a label and by
// an id without its turn; of what ran, and of what was in the middle when its sidecar was killed.
func TestDidTheRefundRun(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(t *testing.T) string{
		"embedded": func(t *testing.T) string { return "embedded: {path: " + filepath.Join(t.TempDir(), "s.db") + "}" },
		"redis":    func(t *testing.T) string { return "redis: {addrs: [" + harness.Redis(t) + "]}" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := harness.New(t, "lease: 1s\nretention: 5m\ninstance: one\ndefaults: {deadline: 90s, attempt_timeout: 80s}\nstore: {"+store(t)+"}\n"+foundTools)
			s.Run()
			request := func(id, tool, arguments string) *sidecallv1.ExecuteToolRequest {
				return &sidecallv1.ExecuteToolRequest{
					ToolUseId: id, ToolName: tool, ArgumentsJson: arguments, ConversationId: "c1", TurnId: "t-" + id, Labels: map[string]string{"user": "u-9"},
				}
			}
			if res := s.Call(request("toolu_1", "refund", `{"order_id":"A-77","card":"4111-1111"}`)); res.GetIsError() {
				t.Fatal(res)
			}
			go func() { _, _ = s.Client.ExecuteTool(t.Context(), request("toolu_2", "charge", `{"order_id":"A-77"}`)) }() // ends with its sidecar
			harness.WaitFor(t, "the charge is at work", func() bool { return verdictOf(t, s, "order_id=A-77", "--tool", "charge") == "VERDICT_RUNNING" })
			s.Kill()
			s.Run()
			harness.WaitFor(t, "the charge is of unknown outcome", func() bool { return verdictOf(t, s, "order_id=A-77", "--tool", "charge") == "VERDICT_UNKNOWN" })
			for what, search := range map[string][]string{
				"an argument":     {"order_id=A-77", "--tool", "refund"},
				"a sensitive one": {"card=4111-1111"},
				"a label":         {"--label", "user=u-9", "--tool", "refund"},
				"an id":           {"--id", "toolu_1"},
				"a conversation":  {"--conversation", "c1", "--tool", "refund"},
				"within an hour":  {"order_id=A-77", "--tool", "refund", "--since", "1h"},
				"within a week":   {"order_id=A-77", "--tool", "refund", "--since", "7d"},
			} {
				if got := verdictOf(t, s, search...); got != "VERDICT_RAN" {
					t.Errorf("by %s: %s, want RAN", what, got)
				}
			}
			code, out, _ := harness.CLI(t, "find", "order_id=A-77", "--addr", s.Operator)
			if code != 4 || !strings.Contains(out, "RAN  refund") || !strings.Contains(out, "UNKNOWN  charge") || !strings.Contains(out, `"card":"(redacted)"`) || strings.Contains(out, "4111") {
				t.Errorf("exit code %d:\n%s", code, out)
			}
			code, said, _ := harness.CLI(t, "find", "order_id=A-99", "--addr", s.Operator)
			if code != 1 || !strings.Contains(said, "NEVER SEEN: no call was claimed with this since") {
				t.Errorf("of what never was: exit code %d:\n%s", code, said)
			}
			code, _, said = harness.CLI(t, "find", "order_id=A-77", "--tool", "refnud", "--addr", s.Operator)
			if code != 1 || !strings.Contains(said, "did you mean --tool refund?") {
				t.Errorf("of a tool that is misspelt: exit code %d:\n%s", code, said)
			}
			undone(t, s)
		})
	}
}

// undone sends the call that the plan has, twice.
func undone(t *testing.T, s *harness.Sidecar) {
	t.Helper()
	code, out, said := harness.CLI(t, "conversations", "undo", "c1", "--plan", "--addr", s.Operator)
	if code != 1 || !strings.Contains(out, "cancel '{\"refund_id\":\"r-77\"}' --id undo_") || !strings.Contains(said, "1 of 2 cannot be undone") {
		t.Fatalf("the plan: exit code %d:\n%s%s", code, out, said)
	}
	_, command, _ := strings.Cut(out, "  sidecall call cancel ")
	words := strings.Fields(strings.ReplaceAll(command, "'", ""))
	args := append([]string{"call", "cancel"}, words[:7]...)
	for range 2 {
		if code, out, said := harness.CLI(t, append(args, "--addr", "tcp://"+s.Addr)...); code != 0 || strings.TrimSpace(out) != "cancelled" {
			t.Fatalf("%q: exit code %d: %s%s", args, code, out, said)
		}
	}
	if _, out, _ := harness.CLI(t, "conversations", "undo", "c1", "--plan", "--addr", s.Operator); !strings.Contains(out, "undone already, by cancel") {
		t.Errorf("after it was undone:\n%s", out)
	}
}

// verdictOf is what find says of the one call that it finds; empty when that is not one.
func verdictOf(t *testing.T, s *harness.Sidecar, search ...string) string {
	t.Helper()
	_, out, said := harness.CLI(t, append([]string{"find", "--json", "--addr", s.Operator}, search...)...)
	var found []struct{ Verdict string }
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("%v: %s%s", err, out, said)
	}
	if len(found) != 1 {
		return ""
	}
	return found[0].Verdict
}

// A webhook is told of what is unknown, also of what a kill has left, and of what waits.
func TestAWebhookIsToldOfWhatNeedsAPerson(t *testing.T) {
	t.Parallel()
	secret := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	type message struct {
		Type string
		Data map[string]string
	}
	told := make(chan message, 100)
	refuse := make(chan struct{}, 1)
	refuse <- struct{}{}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-refuse: // the first time
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		default:
		}
		body, err := io.ReadAll(req.Body)
		var m message
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err != nil || req.Header.Get("Webhook-Signature") != "v1,"+notify.Sign(key, req.Header.Get("Webhook-Id"), req.Header.Get("Webhook-Timestamp"), body) {
			t.Errorf("a message that is not signed: %s, %v", body, err)
		}
		told <- m
	}))
	t.Cleanup(hook.Close)
	s := harness.New(t, "store: {embedded: {path: "+filepath.Join(t.TempDir(), "s.db")+"}}\nnotify: {url: "+hook.URL+", secret: "+secret+"}\n"+
		strings.Replace(foundTools, "search_keys:", "approve_when: always\n    search_keys:", 1))
	s.Run()
	held := &sidecallv1.ExecuteToolRequest{ToolUseId: "toolu_1", ToolName: "refund", ArgumentsJson: `{"order_id":"A-77"}`, ConversationId: "c1"}
	for range 2 { // told once
		if res := s.Call(held); res.GetError().GetCode() != "APPROVAL_REQUIRED" {
			t.Fatal(res)
		}
	}
	if m := <-told; m.Type != "call.held" || m.Data["tool_use_id"] != "toolu_1" || m.Data["tool_name"] != "refund" || m.Data["conversation_id"] != "c1" {
		t.Errorf("told %v", m)
	}
	go func() { // ends with its sidecar
		_, _ = s.Client.ExecuteTool(t.Context(), &sidecallv1.ExecuteToolRequest{ToolUseId: "toolu_2", ToolName: "charge", ArgumentsJson: `{"order_id":"A-77"}`, ConversationId: "c1"})
	}()
	harness.WaitFor(t, "the charge is at work", func() bool { return verdictOf(t, s, "--id", "toolu_2") == "VERDICT_RUNNING" })
	s.Kill()
	s.Run()
	seen := map[string]string{}
	for range 2 { // what was held is told anew by another process, under the same id
		m := <-told
		seen[m.Data["tool_use_id"]] = m.Type
	}
	if seen["toolu_1"] != "call.held" || seen["toolu_2"] != "call.unknown" {
		t.Errorf("after a kill: %v", seen)
	}
}
