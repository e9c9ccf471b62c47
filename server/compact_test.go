package server

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// A conversation that is loaded and resumed compacted: its pages go on where the first
// has begun, and what was left out is read by its output_ref, in its conversation only,
// by programs and by arguments that refer to it.
func TestACompactedConversationIsServed(t *testing.T) {
	t.Parallel()
	takes := calltest.Answers("taken")
	c := newConversing(t, map[string]*calltest.Backend{"take": takes})
	said := `{"order":"A-1","pad":"` + strings.Repeat("x", 1<<20) + `"}`
	texts := []string{asksUser}
	for i := range 6 {
		texts = append(texts, asking("a", "take"), fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":%q}]}`, said))
		if i == 2 {
			texts = append(texts, `{"role":"assistant","content":"half"}`)
		}
	}
	version := int64(0)
	for i, text := range append(texts, asking("open", "take")) {
		version = c.append(&sidecallv1.AppendMessagesRequest{ConversationId: "c1", Provider: "anthropic", TurnId: fmt.Sprint(i), ExpectedVersion: version, MessagesJson: []string{text}})
	}
	resumed, err := c.conversations.ResumeConversation(t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c1", CompactAfterTurns: 3})
	if err != nil || resumed.GetCompactedBefore() != 10 || len(resumed.GetPending()) != 1 {
		t.Fatalf("before %d, %d pending: %v", resumed.GetCompactedBefore(), len(resumed.GetPending()), err)
	}
	var got []string
	for next := int64(0); ; {
		page, err := c.conversations.LoadConversation(t.Context(), &sidecallv1.LoadConversationRequest{ConversationId: "c1", FromVersion: next, CompactBefore: resumed.GetCompactedBefore()})
		if err != nil || page.GetCompactedBefore() != 10 {
			t.Fatal(page, err)
		}
		got = append(got, page.GetMessagesJson()...)
		if next = page.GetNextVersion(); next == 0 {
			break
		}
	}
	left := 0
	for i, m := range got {
		if i < len(texts) && m != texts[i] {
			left++
		}
	}
	if len(got) != len(texts)+1 || left != 4 || !strings.HasPrefix(strings.Join(got, ""), strings.Join(resumed.GetMessagesJson(), "")) {
		t.Fatalf("%d messages, %d changed", len(got), left)
	}
	ref := regexp.MustCompile(`msg_[A-Za-z0-9_-]+`).FindString(got[2])
	read, err := c.tools.ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{ConversationId: "c1", OutputRef: ref, Limit: 100})
	if err != nil || read.GetTotalChars() != int64(len(said)) || !strings.HasPrefix(said, read.GetContent()) || !read.GetComplete() {
		t.Errorf("%v %v", read, err)
	}
	if _, err := c.tools.ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{ConversationId: "c2", OutputRef: ref}); status.Code(err) != codes.NotFound {
		t.Errorf("in another conversation: %v", err)
	}
	req := calltest.Request("by reference", "take")
	req.ArgumentsJson = fmt.Sprintf(`{"order_id":{"$output_ref":%q,"path":"$.order"}}`, ref)
	if res := c.Call(req); res.GetIsError() {
		t.Errorf("as an argument: %v", res)
	}
	for field, wrong := range map[string]*sidecallv1.LoadConversationRequest{
		"compact_before": {ConversationId: "c1", CompactBefore: 99}, "compact_after_turns": {ConversationId: "c1", CompactAfterTurns: -1}, "compact_to_tokens": {ConversationId: "c1", CompactToTokens: -1},
	} {
		if _, err := c.conversations.LoadConversation(t.Context(), wrong); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	whole, err := c.conversations.LoadConversation(t.Context(), &sidecallv1.LoadConversationRequest{ConversationId: "c1"})
	if err != nil || whole.GetCompactedBefore() != 0 || whole.GetMessagesJson()[2] != texts[2] {
		t.Errorf("without: %v %v", whole.GetCompactedBefore(), err)
	}
}
