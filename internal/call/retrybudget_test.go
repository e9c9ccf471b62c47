package call_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/retry"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// Twenty calls in a row, each of which the third attempt would answer: when the retry
// budget is used up they fail, and say that this is why. Those that made all their
// attempts say nothing of it.
func TestARetryBudgetThatStopsACallSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		third := &calltest.Backend{Do: func(_ context.Context, in backend.Invocation) (tool.Reply, *tool.Failure) {
			if in.Attempt < 3 {
				failure := calltest.CutOff
				return tool.Reply{}, &failure
			}
			return tool.Reply{Text: []byte("found")}, nil
		}}
		budget := retry.NewBudget(retry.BudgetShare, retry.BudgetFloor)
		shared := func(r *catalog.Route) { r.Retries = budget }
		s := calltest.New(t, calltest.NewRoute(t, "look", tool.ReadOnly, third, shared),
			calltest.NewRoute(t, "down", tool.ReadOnly, calltest.Fails(calltest.Always, calltest.CutOff)))
		const says = "It was not sent again by itself: the retry budget of the backend shop is used up (in the last 10s retries: 30, calls: "
		failed := 0
		for n := range 20 {
			res := s.Call(calltest.Request(fmt.Sprint("toolu_", n), "look"))
			if !res.GetIsError() {
				continue
			}
			failed++
			if hint := res.GetError().GetHint(); !strings.Contains(hint, says) || !res.GetRecovery().GetRetriesExhausted() {
				t.Errorf("call %d: %s", n, res.GetContent())
			}
		}
		if failed != 5 {
			t.Errorf("%d calls failed, want 5", failed)
		}
		if hint := s.Call(calltest.Request("toolu_down", "down")).GetError().GetHint(); strings.Contains(hint, "budget") {
			t.Errorf("it made all its attempts: %s", hint)
		}
	})
}
