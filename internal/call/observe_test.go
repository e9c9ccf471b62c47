package call_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/observed"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// observing is a sidecar whose store is down, and whose calls are only looked at. calls has all of them
// that are written down.
func observing(t *testing.T, routes ...*catalog.Route) (s *calltest.Sidecar, calls func() []observed.Call) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "observed")
	log := observed.To(file, slog.New(slog.DiscardHandler))
	s = calltest.NewOn(t, brokenStore{}, routes...)
	var writing sync.WaitGroup
	s.With(func(p *call.Parts) {
		p.Hold = func() func() { writing.Add(1); return writing.Done }
	})
	s.Profile(catalog.Profile{Name: "all", Tools: []string{"*"}, MaxCalls: 1, Observe: log})
	s.Profile(catalog.Profile{Name: "narrow", Tools: []string{"get_*"}, Observe: log})
	t.Cleanup(func() { _ = log.Close() }) // calls has closed it
	return s, func() []observed.Call {
		t.Helper()
		writing.Wait()
		found, broken, err := observed.Read(file, time.Time{})
		if err != nil || broken > 0 {
			t.Fatalf("%d broken, %v", broken, err)
		}
		return found
	}
}

// A bug behind the effect of a call that is observed does not make it one that was not run.
func TestABugBehindAnObservedCall(t *testing.T) {
	s, _ := observing(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, &calltest.Backend{}))
	s.With(func(p *call.Parts) {
		p.Hold = func() func() { panic("a bug") }
	})
	if res := s.Call(calltest.Request("toolu_1", "refund")); res.GetError().GetCode() != string(tool.CodeOutcomeUnknown) {
		t.Errorf("it was sent, and is told as %v", res.GetError())
	}
}

// A call of a profile that observes is made as it was sent, each time, whatever its id, its arguments,
// its rules and its breaker say; no store is asked. What would have been said is written down.
func TestACallThatIsOnlyObserved(t *testing.T) {
	var sent []string
	b := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		sent = append(sent, string(in.Args))
		return tool.Reply{Text: []byte(strings.Repeat("a line\n", 2000))}, nil
	}}
	route := calltest.NewRoute(t, "refund", tool.NonIdempotent, b, calltest.WithBreaker(1), func(r *catalog.Route) {
		r.Tool.Policy.Untrusted = true
		r.Rate = limit.NewRate(0.001, 1)
		r.Slots = limit.NewBulkhead(0)
	})
	s, calls := observing(t, route)
	for _, arguments := range []string{`{"order_id":"A-1"}`, `{"order_id":"A-1"}`, `{"cents":"x"}`} {
		req := calltest.Request("toolu_1", "refund")
		req.ArgumentsJson = arguments
		res := s.Call(req)
		if res.GetIsError() || res.GetReplayed() || res.GetRecorded() || res.GetContent() != strings.Repeat("a line\n", 2000) {
			t.Errorf("%s: %.300v", arguments, res)
		}
	}
	if got := strings.Join(sent, " "); got != `{"order_id":"A-1"} {"order_id":"A-1"} {"cents":"x"}` {
		t.Errorf("sent: %s", got)
	}
	if b.Keys[0] == b.Keys[1] || len(b.Keys[0]) < 32 || len(b.Keys[0]) > 64 {
		t.Errorf("keys: %v", b.Keys)
	}
	found := calls()
	if len(found) != 3 {
		t.Fatalf("%+v", found)
	}
	r := observed.Of(found)
	switch {
	case len(r.Again) != 1, r.Again[0].ID != "toolu_1", r.Again[0].Times != 2:
		t.Errorf("made again: %+v", r.Again)
	case len(r.Reused) != 1, len(r.Wrong) != 1, r.Wrong[0].Code != "INVALID_ARGS":
		t.Errorf("reused %+v, wrong %+v", r.Reused, r.Wrong)
	case r.Cut != 3, len(r.Over) != 1, r.Over[0].Calls != 3:
		t.Errorf("cut %d, over %+v", r.Cut, r.Over)
	case found[0].Server != "all" && found[0].Server != "default/all":
		t.Errorf("of %q", found[0].Server)
	}
}

// What became of a call is told as it is: a failure is one, and what is lost is of unknown outcome,
// which nobody repeats.
func TestAnObservedCallThatFails(t *testing.T) {
	for name, of := range map[string]struct {
		effect  tool.Effect
		failure tool.Failure
		code    tool.Code
		ended   string
	}{
		"not there":                {tool.NonIdempotent, calltest.NotFound, tool.CodeNotFound, observed.Failed},
		"cut off":                  {tool.NonIdempotent, calltest.CutOff, tool.CodeOutcomeUnknown, observed.Lost},
		"refused":                  {tool.NonIdempotent, calltest.Refused, tool.CodeDependencyUnavailable, observed.Refused},
		"cut off, under a new key": {tool.Keyed, calltest.CutOff, tool.CodeOutcomeUnknown, observed.Lost},
		"refused, under a new key": {tool.Keyed, calltest.Refused, tool.CodeDependencyUnavailable, observed.Refused},
		"cut off, idempotent":      {tool.Idempotent, calltest.CutOff, tool.CodeDependencyUnavailable, observed.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			b := calltest.Fails(calltest.Always, of.failure)
			s, calls := observing(t, calltest.NewRoute(t, "refund", of.effect, b))
			res := s.Call(calltest.Request("toolu_1", "refund"))
			if calltest.Code(res) != of.code || b.Calls.Load() != 1 {
				t.Errorf("%d attempts, %v", b.Calls.Load(), res)
			}
			// Under its id it would be made once more.
			if hint := res.GetError().GetHint(); strings.Contains(hint, "is safe") || of.ended == observed.Refused && strings.Contains(hint, "may have run") {
				t.Errorf("the hint is %q", hint)
			}
			if found := calls(); len(found) != 1 || found[0].Ended != of.ended {
				t.Errorf("%+v", found)
			}
		})
	}
}

// A call is held for nobody, and who asks first is told so. It is written down that it would have been.
func TestAnObservedCallIsNotHeld(t *testing.T) {
	b := calltest.Answers("paid")
	s, calls := observing(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b, asksFirst(t, "always")))
	if res := s.Call(calltest.Request("toolu_1", "refund")); res.GetIsError() || res.GetContent() != "paid" {
		t.Error(res)
	}
	if found := calls(); len(found) != 1 || !found[0].Held {
		t.Errorf("%+v", found)
	}
}

// Which tools a profile may call is no rule that is observed: it holds. What cannot be read cannot be
// sent; and a call that is only to be checked is checked.
func TestWhatIsRefusedToAnObservedCall(t *testing.T) {
	b := calltest.Answers("paid")
	s, calls := observing(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	for code, change := range map[tool.Code]func(*sidecallv1.ExecuteToolRequest){
		tool.CodePermissionDenied: func(r *sidecallv1.ExecuteToolRequest) { r.Profile = "narrow" },
		tool.CodeUnknownTool:      func(r *sidecallv1.ExecuteToolRequest) { r.ToolName = "refnd" },
		tool.CodeInvalidArgs:      func(r *sidecallv1.ExecuteToolRequest) { r.ArgumentsJson = "[1" },
	} {
		req := calltest.Request("toolu_1", "refund")
		change(req)
		if res := s.Call(req); calltest.Code(res) != code {
			t.Errorf("%s: %v", code, res)
		}
	}
	check := calltest.Request("toolu_1", "refund")
	check.ValidateOnly, check.ArgumentsJson = true, `{}`
	if res := s.Call(check); calltest.Code(res) != tool.CodeInvalidArgs {
		t.Error(res)
	}
	if b.Calls.Load() != 0 || len(calls()) != 1 {
		t.Errorf("%d calls, %v", b.Calls.Load(), calls())
	}
}

// In a batch, and for a caller that does not wait as long as the tool may take, a call is made as by
// itself.
func TestABatchThatIsOnlyObserved(t *testing.T) {
	b := calltest.Answers("paid")
	s, calls := observing(t, calltest.NewRoute(t, "refund", tool.NonIdempotent, b))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // less than the tool may take
	defer cancel()
	requests := make([]call.Request, 3)
	for i := range requests {
		requests[i] = call.NewRequest("", calltest.Request("toolu_1", "refund"))
	}
	for i, res := range s.ExecuteBatch(ctx, requests) {
		if res.GetIsError() || res.GetReplayed() || res.GetContent() != "paid" {
			t.Errorf("%d: %v", i, res)
		}
	}
	if b.Calls.Load() != 3 || len(calls()) != 3 {
		t.Errorf("%d calls, %d written down", b.Calls.Load(), len(calls()))
	}
}
