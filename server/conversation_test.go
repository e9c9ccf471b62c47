package server

import (
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// Agents say when a prompt begins and ends, and are told what is left of it.
func TestAgentsBeginAndEndPrompts(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "act", tool.NonIdempotent, calltest.Answers("ok")))
	s.Profile(catalog.Profile{Name: "tight", Tools: []string{"*"}, MaxCalls: 3})
	conn := dialTo(t, serve(t, NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 64 << 10, MaxStreams: 100}).Agents("tight"))).conn
	prompts, tools := sidecallv1.NewConversationServiceClient(conn), sidecallv1.NewToolServiceClient(conn)
	begun, err := prompts.StartPrompt(t.Context(), &sidecallv1.StartPromptRequest{ConversationId: "c1", PromptId: "p1"})
	if err != nil || begun.GetBudget().GetToolCallsUsed() != 0 || begun.GetBudget().GetToolCallsLimit() != 3 {
		t.Fatalf("begun: %v, %v", begun, err)
	}
	req := calltest.Request("1", "act")
	req.PromptId = "p1"
	if res, err := tools.ExecuteTool(t.Context(), req); err != nil || res.GetIsError() {
		t.Fatal(res, err)
	}
	ended, err := prompts.EndPrompt(t.Context(), &sidecallv1.EndPromptRequest{ConversationId: "c1", PromptId: "p1", ExitReason: "end_turn"})
	if err != nil || ended.GetBudget().GetToolCallsUsed() != 1 || ended.GetBudget().GetToolCallsLimit() != 3 {
		t.Errorf("ended: %v, %v", ended, err)
	}
}

func TestAPromptThatCannotBeIsAStatus(t *testing.T) {
	s := calltest.New(t)
	conn := dialTo(t, serve(t, NewGRPC(s.Executor, NewDrain(), slog.New(slog.DiscardHandler), GRPCOptions{MaxRequestBytes: 64 << 10, MaxStreams: 100}).Agents("narrow"))).conn
	prompts := sidecallv1.NewConversationServiceClient(conn)
	for field, req := range map[string]*sidecallv1.EndPromptRequest{
		"conversation_id": {PromptId: "p1", ExitReason: "end_turn"},
		"prompt_id":       {ConversationId: "c1", PromptId: strings.Repeat("x", 300)},
		"exit_reason":     {ConversationId: "c1", ExitReason: strings.Repeat("x", 300)},
		"profile":         {ConversationId: "c1", Profile: "all"}, // which these agents may not name
	} {
		_, err := prompts.EndPrompt(t.Context(), req)
		if status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(status.Convert(err).Message(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	for field, begin := range map[string]*sidecallv1.StartPromptRequest{"conversation_id": {}, "profile": {ConversationId: "c1", Profile: "all"}} {
		if _, err := prompts.StartPrompt(t.Context(), begin); status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(status.Convert(err).Message(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
