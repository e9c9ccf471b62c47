package call_test

import (
	"context"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// A tool that is refused while its call waits for a connection: nothing is sent, and
// the answer says why.
func TestACallOfAToolThatIsRefusedMeanwhile(t *testing.T) {
	t.Parallel()
	const why = "this tool says something else of itself"
	told := new(catalog.Withdrawal)
	sent := 0
	waits := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
		told.Withdraw(why) // the server has come back
		if withheld := in.Withheld(); withheld != nil {
			return tool.Reply{}, withheld
		}
		sent++
		return tool.Reply{Text: []byte("paid")}, nil
	}}
	s := calltest.New(t, calltest.NewRoute(t, "charge", tool.NonIdempotent, waits, calltest.WithBreaker(1), func(r *catalog.Route) { r.Withdrawal = told }))
	for _, id := range []string{"toolu_1", "toolu_2"} { // the other one comes later
		req := calltest.Request(id, "charge")
		res := s.Call(req)
		calltest.CheckInvariants(t, req, res)
		if calltest.Code(res) != tool.CodePermissionDenied || res.GetError().GetConstraint() != why || res.GetRecovery().GetAttempts() != 0 {
			t.Errorf("got %s", res.GetContent())
		}
		if state := s.State(id); sent != 0 || state != dedupe.NotRun {
			t.Errorf("%d sent, %s", sent, state)
		}
	}
}

// Nor is what may have run sent again when its tool has been declared anew meanwhile,
// as one that must not be repeated.
func TestACallIsNotRepeatedWhenItsToolMustNotBeAnyMore(t *testing.T) {
	t.Parallel()
	for _, later := range []tool.Effect{tool.Idempotent, tool.NonIdempotent} {
		var s *calltest.Sidecar
		tries, sent := 0, 0
		b := &calltest.Backend{}
		b.Do = func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
			if tries++; tries > 1 { // its server has come back, and is heard
				s.Generation.Set(catalog.ConfigSource, []*catalog.Route{calltest.NewRoute(t, "charge", later, b)})
			}
			if withheld := in.Withheld(); withheld != nil {
				return tool.Reply{}, withheld
			}
			if sent++; sent > 1 {
				return tool.Reply{Text: []byte("paid")}, nil
			}
			lost := calltest.CutOff
			return tool.Reply{}, &lost
		}
		s = calltest.New(t, calltest.NewRoute(t, "charge", tool.Idempotent, b))
		req := calltest.Request("toolu_1", "charge")
		res := s.Call(req)
		calltest.CheckInvariants(t, req, res)
		again := s.Call(req)
		if later.Repeatable() {
			if res.GetIsError() || sent != 2 || !again.GetReplayed() {
				t.Errorf("%s: %d sent, %s", later, sent, res.GetContent())
			}
			continue
		}
		if sent != 1 || calltest.Code(res) != tool.CodeOutcomeUnknown || res.GetRecovery().GetAttempts() != 1 {
			t.Errorf("%s: %d sent, %s", later, sent, res.GetContent())
		}
		if calltest.Code(again) != tool.CodeOutcomeUnknown {
			t.Errorf("%s: sent once more it got %s", later, again.GetContent())
		}
	}
}
