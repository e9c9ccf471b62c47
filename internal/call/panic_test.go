package call_test

import (
	"context"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/calltest"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
)

// unsettling is a store with a bug at every settlement.
type unsettling struct{ dedupe.Store }

func (unsettling) Settle(context.Context, dedupe.Settlement) (dedupe.SettleVerdict, error) {
	panic("a bug")
}

// When even the settlement of a call that was cut short panics, its caller is
// still told what may have happened.
func TestAPanicAtEverySettlement(t *testing.T) {
	for effect, want := range map[tool.Effect]tool.Code{
		tool.NonIdempotent: tool.CodeOutcomeUnknown,
		tool.ReadOnly:      tool.CodeInternal,
	} {
		b := calltest.Answers("ok")
		s := calltest.NewOn(t, unsettling{embedded.InMemory(embedded.Options{})}, calltest.NewRoute(t, "do_it", effect, b))
		res := s.Call(calltest.Request("toolu_1", "do_it"))
		if calltest.Code(res) != want || res.GetRecorded() || b.Calls.Load() != 1 {
			t.Errorf("%v: %s, recorded %t, %d calls", effect, res.GetContent(), res.GetRecorded(), b.Calls.Load())
		}
	}
}
