package server_test

import (
	"log/slog"
	"testing"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/telemetry"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/server"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// What a person is told of the tools is what the metrics of the sidecar say.
func TestTheOverviewIsThatOfTheMetrics(t *testing.T) {
	observed, err := telemetry.Start(t.Context(), telemetry.Service{Version: "test"}, slog.DiscardHandler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := observed.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	s := calltest.New(t,
		calltest.NewRoute(t, "get_order", tool.ReadOnly, calltest.Answers("ok")),
		calltest.NewRoute(t, "miss", tool.ReadOnly, calltest.Fails(calltest.Always, calltest.NotFound)),
		calltest.NewRoute(t, "down", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.Refused), calltest.WithBreaker(1)))
	s.With(func(p *call.Parts) { p.Recorder = observed.Recorder })
	for i, name := range []string{"get_order", "miss", "get_order", "down"} {
		req := calltest.Request(string(rune('a'+i)), name)
		req.PromptId = "p1"
		s.Call(req)
	}
	s.Call(calltest.Request("a", "get_order")) // another prompt, and a replay
	again := calltest.Request("b", "miss")
	again.PromptId = "p1"
	s.Call(again)
	if _, err := s.Prompts().EndPrompt(t.Context(), call.Prompt{Conversation: "c1", ID: "p1"}, "error"); err != nil {
		t.Fatal(err)
	}
	res, err := (&server.Operator{Executor: s.Executor, Metrics: observed.Gatherer}).GetOverview(t.Context(), &sidecallv1.GetOverviewRequest{})
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string]*sidecallv1.ToolOverview{}
	for _, one := range res.GetTools() {
		tools[one.GetToolName()] = one
	}
	if ok := tools["get_order"]; ok.GetCalls() != 3 || ok.GetErrors() != 0 || ok.GetP50() == nil || ok.GetBreaker() != "closed" {
		t.Errorf("get_order: %v", ok)
	}
	if miss := tools["miss"]; miss.GetErrors() != miss.GetCalls() || len(miss.GetErrorTexts()) != 1 || miss.GetErrorTexts()[0].GetCode() != "NOT_FOUND" || miss.GetErrorTexts()[0].GetTimes() != 1 {
		t.Errorf("miss: %v", miss)
	}
	if down := tools["down"]; down.GetBreaker() != "open" || down.GetBlockedFor() == nil {
		t.Errorf("down: %v", down)
	}
	if n := res.GetNumbers(); n.GetCalls() != 6 || n.GetReplayRate() != 2.0/6 || n.GetPrompts() == 0 || n.GetRecoveryRate() != 0 || n.GetRecoveries() == 0 {
		t.Errorf("numbers: %v", n)
	}
}
