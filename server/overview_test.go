package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
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

// An overview of so many tools, or with so many errors, that a client of gRPC would not receive
// it is cut, and says of how many tools.
func TestAnOverviewFitsAMessage(t *testing.T) {
	t.Parallel()
	const some = 300
	overview := func(refused string, errors int) *sidecallv1.GetOverviewResponse {
		var routes []*catalog.Route
		for i := range some {
			fails := &calltest.Backend{}
			fails.Do = func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
				f := calltest.NotFound
				f.Constraint = fmt.Sprint(fails.Calls.Load(), strings.Repeat("\U0001F4A5", 290))
				return tool.Reply{}, &f
			}
			routes = append(routes, calltest.NewRoute(t, fmt.Sprintf("tool_%03d", i), tool.ReadOnly, fails, func(r *catalog.Route) { r.Refused = refused }))
		}
		s := calltest.New(t, routes...)
		for i := range some * errors {
			s.Call(calltest.Request(fmt.Sprint(i), fmt.Sprintf("tool_%03d", i%some)))
		}
		res, err := (&server.Operator{Executor: s.Executor}).GetOverview(t.Context(), &sidecallv1.GetOverviewRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(res); size > 4<<20 {
			t.Errorf("it has %d bytes", size)
		}
		return res
	}
	if whole := overview("", 1); len(whole.GetTools()) != some || whole.GetToolsCut() != 0 || len(whole.GetTools()[some-1].GetErrorTexts()) != 1 {
		t.Errorf("of few errors %d tools are cut", whole.GetToolsCut())
	}
	many := overview("", 10)
	whole := len(many.GetTools()) - int(many.GetToolsCut())
	if len(many.GetTools()) != some || whole < some/2 || whole == some {
		t.Fatalf("of %d tools %d are cut", len(many.GetTools()), many.GetToolsCut())
	}
	if len(many.GetTools()[whole-1].GetErrorTexts()) != 10 || len(many.GetTools()[whole].GetErrorTexts()) != 0 {
		t.Error("it is not the last by name that are cut")
	}
	if large := overview(strings.Repeat("x", 12_000), 0); len(large.GetTools()) < some/2 || len(large.GetTools())+int(large.GetToolsCut()) != some {
		t.Errorf("of what is larger %d tools are told of, and %d cut", len(large.GetTools()), large.GetToolsCut())
	}
}
