//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	sidecall "github.com/sidecall/sidecall/clients/go"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// plays is a model that answers as it is written, message by message.
func plays(messages ...string) sidecall.Ask {
	return func(context.Context, []json.RawMessage) (any, error) {
		next := messages[0]
		messages = messages[1:]
		return json.RawMessage(next), nil
	}
}

func modelCalls(id, tool, args string) string {
	return fmt.Sprintf(`{"role":"assistant","type":"message","stop_reason":"tool_use","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}]}`, id, tool, args)
}

func modelSays(text string) string {
	return fmt.Sprintf(`{"role":"assistant","type":"message","stop_reason":"end_turn","content":[{"type":"text","text":%q}]}`, text)
}

// An on-call person has the id of a conversation, and finds in it the first error that was
// not recovered from, with its text word for word, and in the audit how often that happens.
func TestTheRunbookShowsTheFirstErrorThatWasNotRecoveredFrom(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		up.Script("/act", upstream.StatusBody(http.StatusNotFound, "no such order"))
		s := harness.Start(t, up.tools(store))
		client, err := sidecall.Dial("tcp://" + s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		loop := func(id string, ask sidecall.Ask) *sidecall.Loop {
			t.Helper()
			kept, err := client.Conversation(t.Context(), id, sidecall.Anthropic)
			if err != nil {
				t.Fatal(err)
			}
			loop, err := client.RunLoop(t.Context(), ask, []any{json.RawMessage(`{"role":"user","content":"refund it"}`)}, sidecall.LoopOptions{Keep: kept})
			if err != nil {
				t.Fatal(err)
			}
			return loop
		}
		bad := loop("customer-7", plays(
			modelCalls("l1", "look", `{}`), modelCalls("l2", "look", `{"key":"A-1"}`),
			modelCalls("a1", "act", `{"key":"A-77"}`), modelCalls("a1", "act", `{"key":"A-78"}`), modelSays("Something went wrong.")))
		loop("customer-8", plays(modelCalls("l1", "look", `{"key":"A-1"}`), modelSays("It is there.")))

		code, out, errOut := harness.CLI(t, "conversations", "show", "customer-7", "--addr", s.Operator)
		if code != 0 {
			t.Fatalf("exit code %d: %s%s", code, out, errOut)
		}
		says(t, strings.Join(strings.Fields(out), " "), "customer-7: 10 messages (anthropic)", "4 calls, 3 errors: 1 recovered from, 2 given up on, 0 open", "user refund it",
			"[CLOSED, it has not run and never", "INVALID_ARGS, recovered from", `key: "A-78", was "A-77"`, "it said: Something went wrong.")
		_, marked, found := strings.Cut(out, ">> THE FIRST ERROR THAT WAS NOT RECOVERED FROM\n")
		if !found || !strings.HasPrefix(marked, "  call   act a1") || !strings.Contains(marked, "[DONE, 1 attempt") || !strings.Contains(marked, "NOT_FOUND, given up on") {
			t.Errorf("the mark:\n%s", out)
		}
		var shown struct {
			Events []struct {
				Call struct {
					Text string `json:"text"`
				} `json:"call"`
			} `json:"events"`
			First int `json:"first_unrecovered"`
		}
		code, out, errOut = harness.CLI(t, "conversations", "show", "customer-7", "--addr", s.Operator, "--json")
		if err := json.Unmarshal([]byte(out), &shown); code != 0 || err != nil {
			t.Fatalf("exit code %d, %v: %s", code, err, errOut)
		}
		if told := shown.Events[shown.First].Call.Text; !strings.Contains(fmt.Sprintf("%s", bad.Messages), encodedText(t, told)) {
			t.Errorf("it says %q, and the messages are %s", told, bad.Messages)
		}

		code, out, errOut = harness.CLI(t, "audit", "--since", "7d", "--sample", "50", "--seed", "1", "--addr", s.Operator)
		if code != 0 {
			t.Fatalf("exit code %d: %s%s", code, out, errOut)
		}
		says(t, strings.Join(strings.Fields(out), " "), "2 of 2 conversations", "because records are kept for 24h", "5 calls, 3 errors: 1 recovered from, 2 given up on", "1. act NOT_FOUND: 2 errors, 2 gave up", "in customer-7")
		// The metric counts a row of errors once, and a prompt that ends well with one as neither.
		_, metrics := s.Get("/metrics")
		for recovered, want := range map[string]string{"true": "1", "false": "0"} {
			if !regexp.MustCompile(`(?m)^sidecall_recoveries_total\{.*sidecall_recovered="` + recovered + `"\} ` + want + `$`).MatchString(metrics) {
				t.Errorf("recovered %s is not %s:\n%s", recovered, want, metrics)
			}
		}
		code, out, _ = harness.CLI(t, "conversations", "list", "--since", "1h", "--addr", s.Operator)
		if code != 0 {
			t.Errorf("exit code %d", code)
		}
		says(t, out, "customer-7", "customer-8")

		// Agents have none of it.
		if _, err := sidecallv1.NewOperatorServiceClient(s.Conn).ShowConversation(t.Context(), &sidecallv1.ShowConversationRequest{ConversationId: "customer-7"}); err == nil || !strings.Contains(err.Error(), "not served to agents") {
			t.Error(err)
		}
		code, _, errOut = harness.CLI(t, "conversations", "show", "customer-7", "--addr", s.Operator, "--tenant", "reader")
		if code != 1 || !strings.Contains(errOut, "of this tenant there is no such conversation") {
			t.Errorf("of another tenant: exit code %d: %s", code, errOut)
		}
	})
}

// encodedText is a text as it stands in JSON, where only what has to be is escaped.
func encodedText(t *testing.T, text string) string {
	t.Helper()
	first, _, _ := strings.Cut(text, "\n") // blocks of a content stand apart
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(first); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// What was done leaves receipts, which outlive the process; what is taken out of them, or
// written anew, is found.
func TestReceiptsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	verify := func(s *harness.Sidecar, want int, more ...string) string {
		t.Helper()
		code, out, errOut := harness.CLI(t, append([]string{"receipts", "verify", "--conversation", "c-1", "--addr", s.Operator}, more...)...)
		if code != want {
			t.Errorf("exit code %d, want %d: %s%s", code, want, out, errOut)
		}
		return out + errOut
	}
	onBothStores(t, func(t *testing.T, store string) {
		up := startTill(t)
		up.Script("/act", upstream.Echo())
		s := harness.Start(t, "receipts: true\n"+up.tools(store))
		says(t, verify(s, 1), "there is no such conversation")
		s.Call(prompted("order-1"))
		_, head, _ := strings.Cut(verify(s, 0), "head ")
		head = strings.TrimSpace(head)
		s.Kill()
		s.Run()
		s.Call(prompted("order-1")) // a replay
		s.Call(prompted("order-2"))
		look := prompted("look-1")
		look.ToolName = "look"
		s.Call(look)
		says(t, verify(s, 0, "--noted", head), "nothing was changed or left out", "2 receipts, 2 compared")
		says(t, verify(s, 1, "--noted", "2:"+head[2:]), "another hash than was noted")
	})
}

// Somebody who can write to Redis takes out the record, or the receipt, of a payment.
func TestWhatIsTakenOutOfRedisIsFound(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]string{"receipt/": "receipt 2 is missing", "": `the record of "order-2" is missing`} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			addr := harness.Redis(t)
			up := startTill(t)
			up.Script("/act", upstream.Echo())
			s := harness.Start(t, "receipts: true\n"+up.tools(fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", addr)))
			for _, id := range []string{"order-1", "order-2", "order-3"} {
				s.Call(prompted(id))
			}
			client := redis.NewClient(&redis.Options{Addr: addr})
			defer client.Close()
			keys, err := client.Keys(t.Context(), "*").Result()
			if err != nil {
				t.Fatal(err)
			}
			taken := 0
			for _, key := range keys {
				receipt, record := strings.Contains(key, "receipt/") && strings.HasSuffix(key, "2"), strings.HasSuffix(key, "order-2")
				if what != "" && receipt || what == "" && record {
					taken++
					if err := client.Del(t.Context(), key).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			code, out, errOut := harness.CLI(t, "receipts", "verify", "--conversation", "c-1", "--addr", s.Operator)
			if taken != 1 || code != 1 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
				t.Errorf("%d of %q were taken; exit code %d: %s%s", taken, keys, code, out, errOut)
			}
		})
	}
}
