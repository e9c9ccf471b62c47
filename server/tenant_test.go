package server

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// caller is an agent or operator, and what it can reach.
type caller struct {
	t             *testing.T
	tools         sidecallv1.ToolServiceClient
	conversations sidecallv1.ConversationServiceClient
	operators     sidecallv1.OperatorServiceClient
}

func (c caller) call(id, name string) *sidecallv1.ExecuteToolResponse {
	c.t.Helper()
	req := calltest.Request(id, name)
	req.ConversationId, req.PromptId = "c", "p"
	res, err := c.tools.ExecuteTool(c.t.Context(), req)
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

func (c caller) append(message string) {
	c.t.Helper()
	_, err := c.conversations.AppendMessages(c.t.Context(), &sidecallv1.AppendMessagesRequest{ConversationId: "c", Provider: "anthropic", MessagesJson: []string{message}})
	if err != nil {
		c.t.Error(err)
	}
}

// messages are those of the conversation; none where there is none.
func (c caller) messages() string {
	c.t.Helper()
	loaded, err := c.conversations.LoadConversation(c.t.Context(), &sidecallv1.LoadConversationRequest{ConversationId: "c"})
	resumed, err2 := c.conversations.ResumeConversation(c.t.Context(), &sidecallv1.ResumeConversationRequest{ConversationId: "c"})
	listed, err3 := c.conversations.ListConversations(c.t.Context(), &sidecallv1.ListConversationsRequest{})
	said := strings.Join(loaded.GetMessagesJson(), "")
	there := err == nil
	if status.Code(err) != status.Code(err2) || err3 != nil || (len(listed.GetConversations()) > 0) != there || strings.Join(resumed.GetMessagesJson(), "") != said {
		c.t.Errorf("load %v, resume %v, list %v, %v", err, err2, listed, err3)
	}
	if !there && status.Code(err) != codes.NotFound {
		c.t.Error(err)
	}
	return said
}

// halls are the callers of a sidecar with a tool that has an effect, one whose answer is
// lost and one with a long answer.
func halls(t *testing.T) (agents func(offered ...string) caller, operator caller) {
	t.Helper()
	store := embedded.InMemory(embedded.Options{})
	s := calltest.NewOn(t, store,
		calltest.NewRoute(t, "pay", tool.NonIdempotent, calltest.Answers("paid")),
		calltest.NewRoute(t, "get_lost", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.CutOff)),
		calltest.NewRoute(t, "get_all", tool.ReadOnly, calltest.Answers(strings.Repeat("word ", 5000))))
	for _, name := range []string{"narrow", "other"} {
		s.Profile(catalog.Profile{Name: name, Tools: []string{"get_*"}, MaxCalls: 3})
	}
	s.Profile(catalog.Profile{Name: "all", Tools: []string{"*"}, MaxCalls: 3})
	book := &conversation.Book{Store: store, Limits: conversation.Limits{TTL: time.Hour, Messages: 100, Bytes: 1 << 20}}
	s.With(func(p *call.Parts) { p.Book = book })
	servers := NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 4 << 20, MaxStreams: 100, Book: book})
	at := func(server *grpc.Server) caller {
		conn := dialTo(t, serve(t, server)).conn
		return caller{t, sidecallv1.NewToolServiceClient(conn), sidecallv1.NewConversationServiceClient(conn), sidecallv1.NewOperatorServiceClient(conn)}
	}
	return func(offered ...string) caller { return at(servers.Agents(offered...)) }, at(servers.Operators())
}

// A listener that offers some profiles reaches nothing that came through another one: it
// lists, loads and resumes no conversation of it, replays no result, reads no record and
// no output, adds no message and uses none of its budget, whatever ids it names.
func TestAListenerReachesOnlyWhatCameThroughIt(t *testing.T) {
	agents, _ := halls(t)
	all := agents()
	all.append(asksUser)
	all.call("toolu_1", "pay")
	kept := all.call("toolu_2", "get_all").GetTruncation().GetOutputRef()
	if kept == "" {
		t.Fatal("nothing is kept")
	}
	for _, offered := range [][]string{{"narrow"}, {"all", "narrow"}} {
		another := agents(offered...)
		if said := another.messages(); said != "" {
			t.Errorf("%v reads %s", offered, said)
		}
		another.append(`{"role":"user","content":"forged"}`)
		if res := another.call("toolu_1", "pay"); res.GetReplayed() {
			t.Errorf("%v is told of another's call: %v", offered, res)
		}
		if res, err := another.tools.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c", TurnId: calltest.Request("", "").GetTurnId(), ToolUseId: "toolu_2"}); status.Code(err) != codes.NotFound {
			t.Errorf("%v reads the record %v, %v", offered, res, err)
		}
		if res, err := another.tools.ReadOutput(t.Context(), &sidecallv1.ReadOutputRequest{ConversationId: "c", OutputRef: kept}); status.Code(err) != codes.NotFound {
			t.Errorf("%v reads the output %.100v, %v", offered, res, err)
		}
		for range 5 {
			another.call("again", "get_lost")
			another.call("toolu_"+time.Now().String(), "get_all")
		}
	}
	if said := all.messages(); said != asksUser {
		t.Errorf("it says now %s", said)
	}
	if res := all.call("toolu_3", "pay"); res.GetBudget().GetToolCallsUsed() != 3 || res.GetIsError() {
		t.Errorf("its budget: %v", res)
	}
}

// Listeners that offer the same profiles, in whatever order and wherever they listen,
// are one tenant: an id runs once. Metadata makes no agent another tenant.
func TestListenersThatOfferTheSame(t *testing.T) {
	agents, _ := halls(t)
	first, second, third := agents("all", "narrow"), agents("narrow", "all"), agents("narrow")
	first.append(asksUser)
	if res := first.call("toolu_1", "get_all"); res.GetIsError() {
		t.Fatal(res)
	}
	if res := second.call("toolu_1", "get_all"); !res.GetReplayed() || second.messages() != asksUser {
		t.Errorf("the second: %v, %s", res, second.messages())
	}
	for _, tenant := range []string{"all,narrow", ""} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "sidecall-tenant", tenant)
		if res, err := third.conversations.LoadConversation(ctx, &sidecallv1.LoadConversationRequest{ConversationId: "c"}); status.Code(err) != codes.NotFound {
			t.Errorf("an agent that names the tenant %q loads %v, %v", tenant, res, err)
		}
	}
}

// Operators see what is unknown of every tenant, and whose it is; they settle, read and
// resume what is of the tenant that they name.
func TestOperatorsNameATenant(t *testing.T) {
	agents, operator := halls(t)
	for _, offered := range [][]string{nil, {"narrow"}, {"other", "narrow"}} {
		agents(offered...).call("toolu_1", "get_lost")
	}
	agents("narrow").append(asksUser)
	as := func(tenant string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "sidecall-tenant", tenant)
	}
	listed := func(ctx context.Context) (tenants string) {
		t.Helper()
		res, err := operator.operators.ListUnknown(ctx, &sidecallv1.ListUnknownRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range res.GetExecutions() {
			tenants += "[" + e.GetTenant() + "]"
		}
		return tenants
	}
	if all := listed(t.Context()); all != "[][narrow][narrow,other]" {
		t.Errorf("all that is unknown: %s", all)
	}
	if one, none, unnamed := listed(as("narrow")), listed(as("no such")), listed(as("")); one != "[narrow]" || none != "" || unnamed != "[]" {
		t.Errorf("of one tenant: %s, %s, %s", one, none, unnamed)
	}
	resolve := &sidecallv1.ResolveExecutionRequest{
		ConversationId: "c", TurnId: calltest.Request("", "").GetTurnId(), ToolUseId: "toolu_1", State: sidecallv1.ExecutionState_EXECUTION_STATE_DONE, Reason: "seen",
	}
	if _, err := operator.operators.ResolveExecution(as("no such"), resolve); status.Code(err) != codes.NotFound {
		t.Errorf("of a tenant that there is not: %v", err)
	}
	if _, err := operator.operators.ResolveExecution(as("narrow"), resolve); err != nil {
		t.Fatal(err)
	}
	if left := listed(t.Context()); left != "[][narrow,other]" {
		t.Errorf("what is left: %s", left)
	}
	if res := agents("narrow").call("toolu_1", "get_lost"); !res.GetReplayed() || res.GetIsError() {
		t.Errorf("the agent gets %v", res)
	}
	execution, err := operator.tools.GetExecution(as("narrow"), &sidecallv1.GetExecutionRequest{ConversationId: "c", TurnId: resolve.GetTurnId(), ToolUseId: "toolu_1"})
	if err != nil || execution.GetState() != sidecallv1.ExecutionState_EXECUTION_STATE_DONE {
		t.Errorf("its record: %v, %v", execution, err)
	}
	if res, err := operator.conversations.LoadConversation(as("narrow"), &sidecallv1.LoadConversationRequest{ConversationId: "c"}); err != nil || len(res.GetMessagesJson()) != 1 {
		t.Errorf("its conversation: %v, %v", res, err)
	}
}
