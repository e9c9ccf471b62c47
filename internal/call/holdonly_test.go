package call_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// onlyAsks is a request that only asks whether a person has to allow it.
func onlyAsks(req *sidecallv1.ExecuteToolRequest) *sidecallv1.ExecuteToolRequest {
	req.HoldOnly = true
	return req
}

// mayRun reports that nobody has to be asked, and that nothing was recorded.
func mayRun(res *sidecallv1.ExecuteToolResponse) bool {
	return !res.GetIsError() && !res.GetRecorded() && !res.GetReplayed() && res.GetHold() == nil && strings.HasSuffix(res.GetContent(), "Nothing was run.")
}

// Who asks before it runs a tool is told to wait for a person, and runs it once when that is over.
func TestItIsAskedWhetherAPersonHasToBe(t *testing.T) {
	upstream := calltest.Answers(`"refunded"`)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, asksFirst(t, "args.cents > 100000")))
	s.Profile(catalog.Profile{Name: "all", Tools: []string{"*"}, MaxCalls: 1})
	small := refund("toolu_0")
	small.PromptId, small.ArgumentsJson = "p0", `{"order_id":"A-1","cents":1}`
	for range 2 {
		if res := s.Call(onlyAsks(small)); !mayRun(res) || res.GetBudget() != nil || s.State("toolu_0") != dedupe.Absent {
			t.Fatalf("of a small one nobody need be asked: %v", res)
		}
	}
	for range 2 {
		res := s.Call(onlyAsks(refund("toolu_1")))
		if calltest.Code(res) != tool.CodeApprovalRequired || res.GetHold().GetReason() != "approve_when: args.cents > 100000" || res.GetHold().GetExpiresAt() == nil {
			t.Fatalf("held: %v", res)
		}
	}
	if shown := heldCalls(t, s); len(shown) != 1 {
		t.Fatalf("listed: %v", shown)
	}
	approve(t, s)
	for range 2 {
		if res := s.Call(onlyAsks(refund("toolu_1"))); !mayRun(res) || res.GetApproval().GetClaimedBy() != "ada" || s.State("toolu_1") != dedupe.Held {
			t.Fatalf("allowed: %v", res)
		}
	}
	if n := upstream.Calls.Load(); n != 0 {
		t.Fatalf("%d calls were sent by who only asked", n)
	}
	if res := s.Call(refund("toolu_1")); res.GetIsError() || res.GetReplayed() || res.GetBudget().GetToolCallsUsed() != 1 {
		t.Fatalf("it runs: %v", res)
	}
	if res := s.Call(onlyAsks(refund("toolu_1"))); !res.GetReplayed() || res.GetContent() != `"refunded"` || upstream.Calls.Load() != 1 {
		t.Fatalf("it ran: %v", res)
	}
}

// What is wrong with a call is told who asks about it, as who sends it.
func TestWhatIsWrongWithACallThatIsAskedAbout(t *testing.T) {
	lost := calltest.Fails(calltest.Always, calltest.CutOff)
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok"), asksFirst(t, "always")),
		calltest.NewRoute(t, "charge", tool.NonIdempotent, lost))
	s.Call(onlyAsks(refund("toolu_1")))
	if _, err := operator(s).DenyExecution(t.Context(), denial()); err != nil {
		t.Fatal(err)
	}
	s.Call(calltest.Request("toolu_2", "charge"))
	invalid, reused, both := refund("toolu_3"), refund("toolu_1"), refund("toolu_4")
	invalid.ArgumentsJson, reused.ArgumentsJson, both.ValidateOnly = `{`, `{"order_id":"A-2"}`, true
	for name, c := range map[string]struct {
		req  *sidecallv1.ExecuteToolRequest
		want tool.Code
	}{
		"denied":             {refund("toolu_1"), tool.CodePermissionDenied},
		"unknown":            {calltest.Request("toolu_2", "charge"), tool.CodeOutcomeUnknown},
		"no JSON":            {invalid, tool.CodeInvalidArgs},
		"other arguments":    {reused, tool.CodeIDReused},
		"only validated too": {both, ""},
		"no such tool":       {calltest.Request("toolu_5", "fly"), tool.CodeUnknownTool},
	} {
		if res := s.Call(onlyAsks(c.req)); calltest.Code(res) != c.want {
			t.Errorf("%s: %v", name, res)
		}
	}
	if n := lost.Calls.Load(); n != 1 || s.State("toolu_4") != dedupe.Absent {
		t.Errorf("%d calls were sent, and what was only validated is %v", n, s.State("toolu_4"))
	}
}

// The failures of the prompt count for who asks, and what is asked of it costs one round trip more.
func TestItIsAskedAfterFailures(t *testing.T) {
	store := tripping()
	upstream := calltest.Fails(calltest.Always, calltest.NotFound)
	s := calltest.NewOn(t, store, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, confirms(2)),
		calltest.NewRoute(t, "credit", tool.Keyed, calltest.Fails(1, calltest.CutOff), confirms(1), once))
	for _, c := range []struct {
		name  string
		fails bool
		want  tool.Code
		trips int
	}{
		{"before any failure", true, "", 1},
		{"after one", true, "", 1},
		{"after two", false, tool.CodeApprovalRequired, 2},
	} {
		store.taken()
		asked := refund("toolu_" + strings.ReplaceAll(c.name, " ", "_"))
		res := s.Call(onlyAsks(asked))
		if trips, _, _ := store.taken(); calltest.Code(res) != c.want || len(trips) != c.trips {
			t.Errorf("%s: %v, %v", c.name, trips, res)
		}
		if asked.HoldOnly = false; c.fails {
			s.Call(asked)
		} else if again := s.Call(asked); calltest.Code(again) != tool.CodeApprovalRequired || again.GetHold().GetReason() != res.GetHold().GetReason() {
			t.Errorf("%s: sent, it is %v", c.name, again)
		}
	}
	if n := upstream.Calls.Load(); n != 2 {
		t.Errorf("%d calls were sent, want the two that failed", n)
	}
	again := calltest.Request("toolu_9", "credit")
	again.PromptId = "p1"
	s.Call(again)
	if res := s.Call(onlyAsks(again)); !mayRun(res) {
		t.Errorf("what may have run can only be repeated under its id: %v", res)
	}
}

// An approval that is over counts for nobody who asks after failures either.
func TestItIsAskedAnewWhenAnApprovalIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Fails(calltest.Always, calltest.NotFound), confirms(1)))
		s.Call(refund("toolu_0"))
		s.Call(onlyAsks(refund("toolu_1")))
		approve(t, s)
		if res := s.Call(onlyAsks(refund("toolu_1"))); !mayRun(res) {
			t.Fatalf("allowed: %v", res)
		}
		time.Sleep(time.Hour)
		if res := s.Call(onlyAsks(refund("toolu_1"))); calltest.Code(res) != tool.CodeApprovalRequired || res.GetHold().GetApproved() {
			t.Fatalf("over: %v", res)
		}
	})
}

// Nobody is asked of an effect that has happened.
func TestItIsAskedOfAnEffectThatWasHad(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok"), asksFirst(t, "always"), byOrder()))
	s.Call(refund("toolu_1"))
	approve(t, s)
	s.Call(refund("toolu_1"))
	if res := s.Call(onlyAsks(refund("toolu_2"))); calltest.Code(res) != tool.CodeDuplicateEffect || s.State("toolu_2") != dedupe.Absent {
		t.Fatalf("%v", res)
	}
}

// unadmitting is a store that is away.
type unadmitting struct {
	dedupe.Store

	settled atomic.Int32
}

func (*unadmitting) Admit(context.Context, dedupe.Request) (dedupe.Admission, error) {
	return dedupe.Admission{}, errors.New("connection refused")
}

func (s *unadmitting) Settle(context.Context, dedupe.Settlement) (dedupe.SettleVerdict, error) {
	s.settled.Add(1)
	return dedupe.Superseded, nil
}

// Without a store nobody knows whether a person has to be asked, but of what has no effect. There is
// no claim that would have to be given back.
func TestItIsAskedWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream, store := calltest.Answers("ok"), &unadmitting{Store: embedded.InMemory(embedded.Options{})}
		s := calltest.NewOn(t, store, calltest.NewRoute(t, "refund", tool.NonIdempotent, upstream, asksFirst(t, "always")),
			calltest.NewRoute(t, "look", tool.ReadOnly, upstream))
		if res := s.Call(onlyAsks(refund("toolu_1"))); calltest.Code(res) != tool.CodeStoreUnavailable {
			t.Errorf("an effect: %v", res)
		}
		if res := s.Call(onlyAsks(calltest.Request("toolu_2", "look"))); !mayRun(res) || upstream.Calls.Load() != 0 {
			t.Errorf("no effect: %v", res)
		}
		if synctest.Wait(); store.settled.Load() != 0 {
			t.Errorf("%d claims are given back", store.settled.Load())
		}
	})
}

// Who asks has nobody look either what became of a call.
func TestItIsAskedOfWhatIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &shop{happens: true, look: func(context.Context, backend.Invocation) (tool.Reply, *tool.Failure) {
			f := calltest.Refused
			return tool.Reply{}, &f
		}}
		s := up.sidecar(t)
		s.Call(calltest.Request("toolu_1", "refund"))
		before := up.looks.Load()
		time.Sleep(time.Hour)
		if res := s.Call(onlyAsks(calltest.Request("toolu_1", "refund"))); calltest.Code(res) != tool.CodeOutcomeUnknown || up.looks.Load() != before {
			t.Errorf("asked, %d looks more: %v", up.looks.Load()-before, res)
		}
		var leave func()
		if s.Slots, leave = filled(); calltest.Code(s.Call(onlyAsks(calltest.Request("toolu_1", "refund")))) != tool.CodeOutcomeUnknown || up.looks.Load() != before {
			t.Errorf("asked of a full sidecar, %d looks more", up.looks.Load()-before)
		}
		leave()
		if s.Call(calltest.Request("toolu_1", "refund")); up.looks.Load() == before {
			t.Error("sent, nobody looks")
		}
	})
}

// Who asks has no seat at the tool, and whoever asks or sends the same call at once gets its own answer.
func TestItIsAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := calltest.New(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, calltest.Answers("ok"), withSlots(fullSlots()), asksFirst(t, "args.cents > 100000")))
		small := func() *sidecallv1.ExecuteToolRequest {
			req := refund("toolu_2")
			req.ArgumentsJson = `{"order_id":"A-1","cents":1}`
			return onlyAsks(req)
		}
		held := make(chan tool.Code)
		for range 8 {
			go func() { held <- calltest.Code(s.Call(onlyAsks(refund("toolu_1")))) }()
			go func() { held <- calltest.Code(s.Call(small())) }()
		}
		got := map[tool.Code]int{}
		for range 16 {
			got[<-held]++
		}
		if got[tool.CodeApprovalRequired] != 8 || got[""] != 8 {
			t.Errorf("got %v", got)
		}
	})
}
