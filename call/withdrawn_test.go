package call_test

import (
	"context"
	"testing"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/testkit/calltest"
	"github.com/sidecall/sidecall/tool"
)

// A tool that is refused while its call waits for a connection: nothing is sent, and
// the answer says why.
func TestACallOfAToolThatIsRefusedMeanwhile(t *testing.T) {
	t.Parallel()
	const why = "this tool says something else of itself"
	told := new(catalog.Withdrawal)
	sent := 0
	waits := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (backend.Reply, *tool.Failure) {
		told.Withdraw(why) // the server has come back
		if withheld := in.Withheld(); withheld != nil {
			return backend.Reply{}, withheld
		}
		sent++
		return backend.Reply{Text: []byte("paid")}, nil
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
