package server

import (
	"context"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/memory"
	"github.com/sidecall/sidecall/tool"
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
		b := answers("ok")
		s := newSidecarOn(t, unsettling{memory.New(memory.Options{})}, newRoute(t, "do_it", effect, b))
		res := s.call(request("toolu_1", "do_it"))
		if code(res) != want || res.GetRecorded() || b.calls.Load() != 1 {
			t.Errorf("%v: %s, recorded %t, %d calls", effect, res.GetContent(), res.GetRecorded(), b.calls.Load())
		}
	}
}
