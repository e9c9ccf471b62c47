//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// A sidecar that drains waits for a call whose caller has left, and records it.
func TestDrainWaitsForACallWhoseCallerHasLeft(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancelled", "deadline"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			g := startGate(t)
			s := harness.Start(t, oneTool(g.URL))
			ctx, cancel := context.WithCancel(t.Context())
			if how == "deadline" {
				ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
			}
			defer cancel()
			left := make(chan answered, 1)
			go func() {
				res, err := s.Client.ExecuteTool(ctx, callOf("left"))
				left <- answered{res, err}
			}()
			<-g.arrived
			if how == "cancelled" {
				cancel()
			}
			// The answer has 50 ms to arrive in: on a machine that stood still meanwhile it
			// is late. TestACallerThatLeavesThrowsNoResultAway has a clock of its own.
			if a := <-left; how == "deadline" && a.res.GetError().GetCode() != "IN_PROGRESS" && status.Code(a.err) != codes.DeadlineExceeded {
				t.Errorf("its caller was told %v, %v", a.res, a.err)
			}
			drains(t, s)
			awaitInFlight(t, s, 1)
			close(g.open)
			if code := s.Wait(); code != 0 {
				t.Errorf("exit code %d\n%s", code, s.Log())
			}
			if log := s.Log(); !strings.Contains(log, `"caller_left":true`) {
				t.Errorf("the log does not say that its caller had left:\n%s", log)
			}
			s.Run()
			if res, err := execute(t, s, callOf("left")); err != nil || !res.GetReplayed() || res.GetIsError() || g.effects.Load() != 1 {
				t.Errorf("sent again it got %v, %v; %d effects", res, err, g.effects.Load())
			}
		})
	}
}

// Ten thousand callers leave calls at work: those that go on are bounded like any
// calls in flight, and so is the memory that they take.
func TestTenThousandCallersThatLeave(t *testing.T) {
	t.Parallel()
	const callers, fit = 10_000, 1_000
	var effects atomic.Int64
	open := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		effects.Add(1)
		<-open
	}))
	t.Cleanup(up.Close)
	s := harness.New(t, fmt.Sprintf(`
backends:
  up: {http: {base_url: %q, allow_private: true}, max_in_flight: %d, breaker: {failures: 1000000}}
defaults: {attempt_timeout: 5m, deadline: 10m}
tools:
  act: {backend: up, description: Does it., http: {method: POST, path: /act}}
`, up.URL, fit), "GOMEMLIMIT=160MiB")
	s.Release = true // its memory is measured: what it needs, and not what the collector leaves lying where there is no limit
	s.Run()
	present, leave := context.WithCancel(t.Context())
	defer leave()
	var refused atomic.Int64
	called := make(chan error, 1)
	go func() {
		var group errgroup.Group
		group.SetLimit(2 * fit)
		for i := range callers {
			group.Go(func() error {
				res, err := s.Client.ExecuteTool(present, callOf(fmt.Sprint("left-", i)))
				switch {
				case res.GetError().GetCode() == "OVERLOADED":
					refused.Add(1)
				case present.Err() == nil:
					return fmt.Errorf("it is told %v, %w", res, err)
				}
				return nil
			})
		}
		called <- group.Wait()
	}()
	harness.WaitFor(t, "a thousand calls to be at work and the others to be refused", func() bool {
		return effects.Load() == fit && refused.Load() == callers-fit
	})
	leave()
	if err := <-called; err != nil {
		t.Error(err)
	}
	harness.WaitFor(t, "all calls in flight to be at work", func() bool {
		_, page := s.Get("/metrics")
		return strings.Contains(page, fmt.Sprintf("\nsidecall_calls_in_flight %d\n", effects.Load()))
	})
	memory := memoryOf(t, s.PID(), ownMemory)
	t.Logf("of %d callers %d left a call at work, %d were refused; %d MiB", callers, effects.Load(), refused.Load(), memory>>20)
	if memory > 200<<20 || memory < 1<<20 {
		t.Errorf("the sidecar has %d MiB", memory>>20)
	}
	close(open)
	awaitInFlight(t, s, 0)
	done := 0
	for i := range callers {
		record, err := s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: fmt.Sprint("left-", i)})
		if err == nil && record.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_DONE {
			done++
		}
	}
	if n := effects.Load(); int(n) != done || n != fit {
		t.Errorf("%d effects, %d of them recorded", n, done)
	}
}
