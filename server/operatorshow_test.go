package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// findable is a store in which calls are found two on a page, among them those that a test
// says are forgotten.
type findable struct {
	*embedded.Store

	forgotten []tool.CallID
	down      error // what Find fails with
}

func (s *findable) Find(ctx context.Context, search dedupe.Search) (dedupe.Page, error) {
	if s.down != nil {
		return dedupe.Page{}, s.down
	}
	search.Most = 2
	page, err := s.Store.Find(ctx, search)
	if search.From == "" {
		for _, key := range s.forgotten {
			page.Calls = append(page.Calls, dedupe.Listed{Key: key})
		}
	}
	return page, err
}

// told is a sidecar that keeps conversations, of which an operator asks.
type told struct {
	*conversing

	store    *findable
	operator *Operator
}

func newTold(t *testing.T, backends map[string]*calltest.Backend) *told {
	t.Helper()
	store := &findable{Store: embedded.InMemory(embedded.Options{})}
	c := newConversingOn(t, store, backends)
	return &told{c, store, &Operator{Executor: c.Executor}}
}

// call makes a call of the conversation c1, in the prompt p1.
func (o *told) call(id, name string) *sidecallv1.ExecuteToolResponse {
	o.T.Helper()
	req := calltest.Request(id, name)
	req.PromptId = "p1"
	return o.Call(req)
}

// says appends messages to a conversation.
func (o *told) says(conversation string, messages ...string) {
	o.T.Helper()
	kept, err := o.conversations.ListConversations(o.T.Context(), &sidecallv1.ListConversationsRequest{})
	if err != nil {
		o.T.Fatal(err)
	}
	version := int64(0)
	for _, one := range kept.GetConversations() {
		if one.GetConversationId() == conversation {
			version = one.GetVersion()
		}
	}
	o.append(&sidecallv1.AppendMessagesRequest{ConversationId: conversation, ExpectedVersion: version, Provider: "anthropic", TurnId: "t1", MessagesJson: messages})
}

// answered is the message that tells a model what came of calls.
func answered(t *testing.T, results ...*sidecallv1.ExecuteToolResponse) string {
	t.Helper()
	messages, err := provider.Answers(provider.Anthropic, results)
	if err != nil {
		t.Fatal(err)
	}
	return string(messages[0])
}

const modelSays = `{"role":"assistant","content":"I am sorry."}`

func (o *told) show(id string) *sidecallv1.ShowConversationResponse {
	o.T.Helper()
	res, err := o.operator.ShowConversation(o.T.Context(), &sidecallv1.ShowConversationRequest{ConversationId: id})
	if err != nil {
		o.T.Fatal(err)
	}
	return res
}

// shownCalls are the calls of a conversation that is shown.
func shownCalls(res *sidecallv1.ShowConversationResponse) (all []*sidecallv1.ConversationCall) {
	for _, e := range res.GetEvents() {
		if e.GetCall() != nil {
			all = append(all, e.GetCall())
		}
	}
	return all
}

// A conversation is shown with its texts, its calls, their records, what the model was told
// word for word, and what it did then.
func TestAConversationIsShown(t *testing.T) {
	o := newTold(t, map[string]*calltest.Backend{"look": calltest.Fails(calltest.Always, calltest.NotFound), "pay": calltest.Answers("paid")})
	o.says("c1", asksUser, asking("a", "look"))
	failed := o.call("a", "look")
	o.says("c1", answered(t, failed), asking("b", "pay"))
	worked := o.call("b", "pay")
	o.says("c1", answered(t, worked), modelSays)
	res := o.show("c1")
	if res.GetMessages() != 6 || res.GetProvider() != "anthropic" || res.GetStartedAt() == nil || res.GetUpdatedAt() == nil || res.GetEventsTotal() != 4 || res.GetNextEvent() != 0 || res.GetRecordsKept().AsDuration() != 24*time.Hour {
		t.Errorf("%v", res)
	}
	if c := res.GetCounts(); c.GetCalls() != 2 || c.GetErrors() != 1 || c.GetGaveUp() != 1 || res.GetFirstUnrecovered() != 1 {
		t.Errorf("%v, the first is %d", c, res.GetFirstUnrecovered())
	}
	if e := res.GetEvents()[0]; e.GetKind() != sidecallv1.ConversationEventKind_CONVERSATION_EVENT_KIND_USER || e.GetText() != "pay" || e.GetPrompt() != 1 || e.GetPromptId() != "p1" {
		t.Errorf("%v", e)
	}
	calls := shownCalls(res)
	if c := calls[0]; !strings.HasPrefix(c.GetText(), failed.GetContent()) || !c.GetAnswered() || c.GetError().GetCode() != "NOT_FOUND" || c.GetError().GetNextTool() != "pay" || c.GetTurnId() != "t1" ||
		c.GetRecord() != sidecallv1.RecordKnown_RECORD_KNOWN_FOUND || c.GetExecution().GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_DONE || c.GetExecution().GetAttempts() != 1 {
		t.Errorf("%v, told %s", c, failed.GetContent())
	}
	if c := calls[1]; c.GetText() != worked.GetContent() || c.GetError() != nil || c.GetArgumentsJson() != `{"order_id":"A-1"}` {
		t.Errorf("%v", c)
	}
}

// Without messages the calls are shown, by their records; what is forgotten is said to be.
func TestAConversationWithoutMessages(t *testing.T) {
	o := newTold(t, map[string]*calltest.Backend{"look": calltest.Fails(1, calltest.NotFound)})
	failed := o.call("a", "look")
	o.call("b", "look")
	other := calltest.Request("x", "look")
	other.ConversationId = "other"
	o.Call(other)
	o.store.forgotten = []tool.CallID{{Conversation: "c1", Turn: "t1", ID: "gone"}}
	res := o.show("c1")
	calls := shownCalls(res)
	slices.SortFunc(calls, func(a, b *sidecallv1.ConversationCall) int {
		return strings.Compare(a.GetToolUseId(), b.GetToolUseId())
	})
	if len(calls) != 3 || res.GetMessages() != 0 || res.GetStartedAt() != nil || !res.GetEvents()[0].GetUnappended() || res.GetEvents()[0].GetMessage() != -1 {
		t.Fatalf("%v", res)
	}
	if c := calls[0]; c.GetText() != provider.Text(failed) || c.GetArgumentsJson() != `{"order_id":"A-1"}` || c.GetError().GetFate() != sidecallv1.ErrorFate_ERROR_FATE_OPEN { // of the same turn as the success
		t.Errorf("%v", c)
	}
	if c := calls[2]; c.GetRecord() != sidecallv1.RecordKnown_RECORD_KNOWN_FORGOTTEN || c.GetExecution() != nil {
		t.Errorf("%v", c)
	}
}

// Who has settled a call is shown with it.
func TestWhoHasSettledACallIsShown(t *testing.T) {
	o := newTold(t, map[string]*calltest.Backend{"pay": calltest.Fails(1, calltest.CutOff)})
	lost := o.call("a", "pay")
	req := &sidecallv1.ResolveExecutionRequest{ConversationId: "c1", TurnId: "t1", ToolUseId: "a", State: sidecallv1.ExecutionState_EXECUTION_STATE_DONE, Reason: "it is in the ledger", ResolvedBy: "oncall"}
	if _, err := o.operator.ResolveExecution(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	c := shownCalls(o.show("c1"))[0]
	if made := c.GetResolution(); made.GetClaimedBy() != "oncall" || made.GetReason() != req.GetReason() || c.GetText() != provider.Text(lost) || strings.Contains(o.call("a", "pay").GetContent(), "((") {
		t.Errorf("%v", c)
	}
}

// What is sensitive is not shown, nor any value of a tool that there is no more.
func TestAShownConversationHasNoSecrets(t *testing.T) {
	o := newTold(t, map[string]*calltest.Backend{"pay": calltest.Answers("paid")})
	o.says("c1", asksUser, asking("a", "no_such_tool"))
	if got := shownCalls(o.show("c1"))[0].GetArgumentsJson(); got != `{"order_id":"(redacted)"}` {
		t.Error(got)
	}
}

// What cannot be shown is refused with the field that is wrong.
func TestAConversationThatCannotBeShown(t *testing.T) {
	o := newTold(t, map[string]*calltest.Backend{"pay": calltest.Answers("paid")})
	o.says("c1", asksUser, modelSays)
	o.call("a", "pay")
	acme := context.WithValue(t.Context(), tenantKey{}, "acme")
	for name, c := range map[string]struct {
		ctx  context.Context
		req  *sidecallv1.ShowConversationRequest
		code codes.Code
		says string
	}{
		"without an id":    {t.Context(), &sidecallv1.ShowConversationRequest{}, codes.InvalidArgument, "conversation_id: is missing"},
		"one too long":     {t.Context(), &sidecallv1.ShowConversationRequest{ConversationId: strings.Repeat("x", 257)}, codes.InvalidArgument, "conversation_id: has 257 bytes"},
		"none":             {t.Context(), &sidecallv1.ShowConversationRequest{ConversationId: "none"}, codes.NotFound, "conversation_id: of this tenant there is no such conversation"},
		"another tenant's": {acme, &sidecallv1.ShowConversationRequest{ConversationId: "c1"}, codes.NotFound, "records are kept for 24h"},
		"a page before":    {t.Context(), &sidecallv1.ShowConversationRequest{ConversationId: "c1", FromEvent: -1}, codes.InvalidArgument, "from_event: is -1"},
		"a page beyond":    {t.Context(), &sidecallv1.ShowConversationRequest{ConversationId: "c1", FromEvent: 4}, codes.InvalidArgument, "and the conversation has 3 events"},
	} {
		if _, err := o.operator.ShowConversation(c.ctx, c.req); status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o.store.down = errors.New("refused")
	if _, err := o.operator.ShowConversation(t.Context(), &sidecallv1.ShowConversationRequest{ConversationId: "c1"}); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

// A long conversation is shown in pages that a client can receive, each event once.
func TestALongConversationIsShownInPages(t *testing.T) {
	o := newTold(t, map[string]*calltest.Backend{"pay": calltest.Answers("paid")})
	long := strings.Repeat("x", 20<<10)
	for i := range 30 {
		messages := []string{`{"role":"user","content":"again"}`}
		for j := range 10 {
			id := fmt.Sprint(i, "-", j)
			messages = append(messages, asking(id, "pay"), fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"is_error":true,"content":%q}]}`, id, long))
		}
		o.says("c1", append(messages, modelSays)...)
	}
	seen, pages := 0, 0
	for from := int32(0); ; pages++ {
		res, err := o.operator.ShowConversation(t.Context(), &sidecallv1.ShowConversationRequest{ConversationId: "c1", FromEvent: from})
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(res); size > 4<<20 || res.GetFirstUnrecovered() != 1 || res.GetCounts().GetErrors() != 300 {
			t.Fatalf("%d bytes, the first is %d: %v", size, res.GetFirstUnrecovered(), res.GetCounts())
		}
		for _, e := range res.GetEvents() {
			if c := e.GetCall(); c != nil && (!c.GetTextCut() || len(c.GetText()) > 16<<10) {
				t.Fatalf("%d bytes of an error", len(c.GetText()))
			}
		}
		seen += len(res.GetEvents())
		if from = res.GetNextEvent(); from == 0 {
			break
		}
	}
	if seen != 30*12 || pages < 3 {
		t.Errorf("%d events on %d pages", seen, pages)
	}
}

// An audit counts what became of errors in a sample of conversations, says how many there
// were, and leaves out what is damaged.
func TestAnAuditOfConversations(t *testing.T) {
	o := newTold(t, map[string]*calltest.Backend{"look": calltest.Fails(calltest.Always, calltest.NotFound), "pay": calltest.Answers("paid")})
	began := time.Now()
	for i := range 30 {
		id := fmt.Sprint("c", i)
		o.says(id, asksUser, asking("a", "look", "b", "pay"),
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","is_error":true,"content":"Error 5"},{"type":"tool_result","tool_use_id":"b","content":"ok"}]}`, modelSays)
	}
	audit := func(req *sidecallv1.AuditConversationsRequest) *sidecallv1.AuditConversationsResponse {
		t.Helper()
		req.Since = timestamppb.New(began.Add(-time.Minute))
		res, err := o.operator.AuditConversations(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := audit(&sidecallv1.AuditConversationsRequest{Sample: 10, Seed: 7})
	if c := res.GetCounts(); res.GetFound() != 30 || res.GetSampled() != 10 || c.GetCalls() != 20 || c.GetErrors() != 10 || c.GetGaveUp() != 10 || res.GetPrompts() != 10 || res.GetRecorded() != 20 { // closed by what answers them
		t.Errorf("%v", res)
	}
	if res.GetRecordsKept().AsDuration() != 24*time.Hour || res.GetConversationsKept().AsDuration() != time.Hour {
		t.Errorf("kept for %v and %v", res.GetRecordsKept(), res.GetConversationsKept())
	}
	if again := audit(&sidecallv1.AuditConversationsRequest{Sample: 10, Seed: 7}); !proto.Equal(res, again) {
		t.Errorf("the same seed: %v", again)
	}
	if one := res.GetMessages(); len(one) != 1 || one[0].GetToolName() != "look" || one[0].GetExample() != "Error 5" || len(one[0].GetVague()) != 2 || len(one[0].GetConversationIds()) != 3 {
		t.Errorf("%v", one)
	}
	if worst := res.GetTools(); len(worst) != 2 || worst[0].GetToolName() != "look" {
		t.Errorf("%v", worst)
	}
	if one := audit(&sidecallv1.AuditConversationsRequest{ToolName: "pay"}); one.GetCounts().GetErrors() != 0 || one.GetCounts().GetCalls() != 30 || one.GetSampled() != 30 {
		t.Errorf("of one tool: %v", one)
	}
	late, err := o.operator.AuditConversations(t.Context(), &sidecallv1.AuditConversationsRequest{Since: timestamppb.New(time.Now().Add(time.Hour))})
	if err != nil || late.GetFound() != 0 || late.GetSampled() != 0 {
		t.Errorf("%v, %v", late, err)
	}
	other, err := o.operator.AuditConversations(context.WithValue(t.Context(), tenantKey{}, "acme"), &sidecallv1.AuditConversationsRequest{Since: timestamppb.New(began)})
	if err != nil || other.GetFound() != 0 {
		t.Errorf("of another tenant: %v, %v", other, err)
	}
}

func TestAnAuditThatCannotBe(t *testing.T) {
	o := newTold(t, nil)
	now := timestamppb.Now()
	for says, req := range map[string]*sidecallv1.AuditConversationsRequest{
		"since: is missing":    {},
		"since: is no instant": {Since: &timestamppb.Timestamp{Seconds: 1 << 60}},
		"sample: is 10001":     {Since: now, Sample: 10_001},
		"sample: is -1":        {Since: now, Sample: -1},
	} {
		if _, err := o.operator.AuditConversations(t.Context(), req); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	o.says("c1", asksUser)
	o.store.down = errors.New("refused")
	if _, err := o.operator.AuditConversations(t.Context(), &sidecallv1.AuditConversationsRequest{Since: timestamppb.New(time.Now().Add(-time.Hour))}); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}
