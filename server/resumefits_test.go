package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// A first message that leaves no room for another is told nevertheless: next_version 0
// means that there is nothing more.
func TestALargeFirstMessageIsNotLost(t *testing.T) {
	t.Parallel()
	for _, size := range []int{conversation.MaxMessageBytes, conversation.MaxMessageBytes - 20, conversation.MaxMessageBytes / 2} {
		c := newConversing(t, map[string]*calltest.Backend{"pay": {Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			return tool.Reply{Text: []byte(strings.Repeat(`"`, 2<<20))}, nil
		}}})
		first := `{"role":"user","content":"`
		first += strings.Repeat("x", size-len(first)-2) + `"}`
		want := []string{first, asking("a", "pay", "b", "pay", "c", "pay")}
		for i, m := range want {
			c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", TurnId: "t1", ExpectedVersion: int64(i), MessagesJson: []string{m}})
		}
		for _, id := range []string{"a", "b", "c"} {
			c.Call(calltest.Request(id, "pay"))
		}
		res, err := c.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1"})
		if err != nil {
			t.Fatal(err)
		}
		got := res.GetMessagesJson()
		for next := res.GetNextVersion(); next != 0; {
			page, err := c.conversations.LoadConversation(t.Context(), &sidecallv1.LoadConversationRequest{ConversationId: "c1", FromVersion: next})
			if err != nil {
				t.Fatal(err)
			}
			got, next = append(got, page.GetMessagesJson()...), page.GetNextVersion()
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("a first message of %d bytes: %d messages came, of %d; the response has %d bytes", size, len(got), len(want), proto.Size(res))
		}
	}
}

// However much JSON makes of what the calls are told, and however many they are, a
// client with default settings is told.
func TestWhatManyCallsAreToldFits(t *testing.T) {
	t.Parallel()
	conversationID := strings.Repeat("c", 256)
	for what, text := range map[string]string{
		"of quotes":          strings.Repeat(`"`, 1020),
		"a little, but many": strings.Repeat("x", 1020),
		"never run":          "",
	} {
		for _, format := range []string{"openai-responses", "anthropic"} {
			c := newConversing(t, map[string]*calltest.Backend{"pay": {Do: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
				return tool.Reply{Text: []byte(text)}, nil
			}}})
			turn, name := strings.Repeat("t", 256), "pay"
			if text == "" {
				name = strings.Repeat("n", 256) // which there is not
			}
			var items, calls []string
			id := func(i int) string { return fmt.Sprintf("%0256d", i) }
			for i := range 1024 {
				items = append(items, fmt.Sprintf(`{"type":"function_call","call_id":"%s","name":"%s","arguments":"{\"order_id\":\"A-1\"}"}`, id(i), name))
				calls = append(calls, fmt.Sprintf(`{"type":"tool_use","id":"%s","name":"%s","input":{"order_id":"A-1"}}`, id(i), name))
			}
			if format == "anthropic" {
				items = []string{`{"role":"assistant","content":[` + strings.Join(calls, ",") + `]}`}
			}
			c.append(&sidecallv1.AppendMessagesRequest{ConversationId: conversationID, Provider: format, TurnId: turn, MessagesJson: items})
			for i := range 1024 {
				if text == "" {
					break
				}
				req := calltest.Request(id(i), "pay")
				req.ConversationId, req.TurnId = conversationID, turn
				c.Call(req)
			}
			res, err := c.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: conversationID})
			if err != nil {
				t.Errorf("%s, %s: %v", what, format, err)
				continue
			}
			if len(res.GetPending()) != 1024 || len(res.GetAnswersJson()) != len(items) {
				t.Errorf("%s, %s: %d pending, %d answers", what, format, len(res.GetPending()), len(res.GetAnswersJson()))
			}
			t.Logf("%s, %s: %d bytes", what, format, proto.Size(res))
		}
	}
}
