package call_test

import (
	"context"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// exceeding is a store that says that a ceiling is in the way, of a call that has none.
type exceeding struct{ dedupe.Store }

func (exceeding) Admit(context.Context, dedupe.Request) (dedupe.Admission, error) {
	return dedupe.Admission{Verdict: dedupe.Exceeded}, nil
}

// Without a claim nothing runs, also when no rule has words for why there is none.
func TestARefusalThatNoRuleKnowsIsOne(t *testing.T) {
	t.Parallel()
	pay := calltest.Answers("paid")
	s := calltest.NewOn(t, exceeding{embedded.InMemory(embedded.Options{})}, calltest.NewRoute(t, "pay", tool.NonIdempotent, pay))
	res := s.Call(calltest.Request("toolu_1", "pay"))
	if pay.Calls.Load() != 0 || calltest.Code(res) != tool.CodeInternal || res.GetRecorded() {
		t.Errorf("the backend was asked %d times, and the result is %v", pay.Calls.Load(), res)
	}
}
