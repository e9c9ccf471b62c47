package call_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// A backend that knows that it is down, and when it tries again, is asked once per
// call: the caller is told at once, and its breaker, which would name another time,
// is not tripped.
func TestABackendThatKnowsThatItIsDown(t *testing.T) {
	down := tool.Failure{
		Code: tool.CodeDependencyUnavailable, Evidence: tool.NotExecuted, ErrorType: "backend_down", RetryAfter: 17 * time.Second, KnownDown: true,
	}
	b := calltest.Fails(20, down)
	route := calltest.NewRoute(t, "pay", tool.NonIdempotent, b)
	route.Breaker = breaker.New(breaker.Settings{Failures: 2, OpenFor: time.Hour})
	s := calltest.New(t, route)
	for i := range 20 {
		res := s.Call(calltest.Request(fmt.Sprint("toolu_", i), "pay"))
		if calltest.Code(res) != tool.CodeDependencyUnavailable || res.GetRecovery().GetRetryAfter().AsDuration() != down.RetryAfter || res.GetRecovery().GetRetriesExhausted() {
			t.Fatalf("call %d got %v", i, res)
		}
	}
	if n := b.Calls.Load(); n != 20 || route.Breaker.State() != breaker.Closed {
		t.Errorf("asked %d times for 20 calls, the breaker is %v", n, route.Breaker.State())
	}
	if res := s.Call(calltest.Request("toolu_0", "pay")); res.GetIsError() {
		t.Errorf("the same id when it is up again: %v", res)
	}
}
