package call_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/test/testkit/calltest"

	"github.com/sidecall/sidecall/breaker"
	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// lined is a backend of so many workers with a line in front of them.
func lined(workers int, service time.Duration) *calltest.Backend {
	free := make(chan struct{}, workers)
	late := &tool.Failure{Code: tool.CodeTimeout, Evidence: tool.Ambiguous}
	return &calltest.Backend{Do: func(ctx context.Context, _ backend.Invocation) (tool.Reply, *tool.Failure) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
		case <-ctx.Done():
			return tool.Reply{}, late
		}
		time.Sleep(service)
		if ctx.Err() != nil {
			return tool.Reply{}, late
		}
		return tool.Reply{Text: []byte("ok")}, nil
	}}
}

// Five times what a backend with a queue can do: most of what it can do must be
// answered in time, what is too much is calltest.Refused, and the breaker, which would
// answer nobody, stays closed.
func TestABackendWithAQueueIsNotDrowned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity, seconds = 80, 10
		tripped := 0
		s := calltest.New(t, calltest.NewRoute(t, "act", tool.Idempotent, lined(4, 50*time.Millisecond), func(r *catalog.Route) {
			r.Capacity = limit.NewAdaptive()
			r.Breaker = breaker.New(breaker.Settings{Failures: 5, OnChange: func(string, breaker.State, breaker.State) { tripped++ }})
			r.Tool.Policy.Retry.MaxAttempts = 1
		}))
		var mu sync.Mutex
		counts := make(map[tool.Code]int)
		var refusal *sidecallv1.ExecuteToolResponse
		var calls sync.WaitGroup
		for n := range 5 * capacity * seconds {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				res := s.Execute(ctx, call.NewRequest("", calltest.Request("toolu_"+time.Now().String()+string(rune('a'+n%26)), "act")))
				mu.Lock()
				defer mu.Unlock()
				counts[calltest.Code(res)]++
				if calltest.Code(res) == tool.CodeOverloaded {
					refusal = res
				}
			})
			time.Sleep(time.Second / (5 * capacity))
		}
		calls.Wait()
		if good := counts[""]; good < capacity*seconds*8/10 {
			t.Errorf("%d answered in time, of %d that could be: %v", good, capacity*seconds, counts)
		}
		if tripped > 0 {
			t.Errorf("the breaker changed %d times", tripped)
		}
		isOverloaded(t, refusal)
		if constraint := refusal.GetError().GetConstraint(); !strings.Contains(constraint, "does not answer more calls of act") {
			t.Errorf("constraint %q", constraint)
		}
	})
}

// A backend that answers nobody is dead, however many ask: the breaker opens.
func TestADeadBackendIsNotTakenForABusyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := slowBackend() // never told to answer
		s := calltest.New(t, calltest.NewRoute(t, "slow", tool.Idempotent, b, calltest.WithBreaker(5), func(r *catalog.Route) {
			r.Capacity = limit.NewAdaptive()
			r.Tool.Policy.Retry.MaxAttempts = 1
		}))
		var calls sync.WaitGroup
		for n := range 20 {
			calls.Go(func() { s.Call(calltest.Request("toolu_"+string(rune('a'+n)), "slow")) })
		}
		calls.Wait()
		if res := s.Call(calltest.Request("toolu_1", "slow")); calltest.Code(res) != tool.CodeCircuitOpen {
			t.Errorf("%s", res.GetContent())
		}
	})
}
