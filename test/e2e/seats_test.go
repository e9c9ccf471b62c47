//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// TestCallsWithoutCallersHoldTheirSeats: every seat is held by a call whose caller has
// left. A new call is refused, by the limit of the sidecar, of the tool or of the
// backend, and nothing is sent; when one of them ends, it is taken.
func TestCallsWithoutCallersHoldTheirSeats(t *testing.T) {
	t.Parallel()
	const seats = 3
	for name, limits := range map[string]string{
		"of the sidecar":  "limits: {max_in_flight: %d}\n" + callersConfig("", ""),
		"of the tool":     callersConfig("", "max_in_flight: %d, "),
		"of the backend":  callersConfig("max_in_flight: %d, ", ""),
		"of all of those": "limits: {max_in_flight: %[1]d}\n" + callersConfig("max_in_flight: %[1]d, ", "max_in_flight: %[1]d, "),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGate(t)
			s := harness.Start(t, fmt.Sprintf(strings.ReplaceAll(limits, "URL", g.URL), seats))
			present, leave := context.WithCancel(t.Context())
			var callers errgroup.Group
			for i := range seats {
				callers.Go(func() error {
					if _, err := s.Client.ExecuteTool(present, callOf(fmt.Sprint("left-", i))); status.Code(err) != codes.Canceled {
						return fmt.Errorf("a caller that left was told %w", err)
					}
					return nil
				})
			}
			for range seats {
				<-g.arrived
			}
			leave()
			if err := callers.Wait(); err != nil {
				t.Error(err)
			}
			for _, id := range []string{"next", "other", "next"} {
				res, err := execute(t, s, callOf(id))
				if err != nil || code(res) != "OVERLOADED" || res.GetRecovery().GetAttempts() != 0 || !res.GetRecovery().GetRetryable() {
					t.Errorf("%s: %v, %v", id, res, err)
				}
			}
			awaitInFlight(t, s, seats)
			if n := g.effects.Load(); n != seats {
				t.Errorf("%d effects of %d calls", n, seats)
			}
			g.open <- struct{}{} // one of them ends
			awaitInFlight(t, s, seats-1)
			next := make(chan answered, 1)
			go func() {
				res, err := execute(t, s, callOf("next"))
				next <- answered{res, err}
			}()
			<-g.arrived
			if res, err := execute(t, s, callOf("other")); err != nil || code(res) != "OVERLOADED" {
				t.Errorf("with the seat taken again: %v, %v", res, err)
			}
			close(g.open)
			if a := <-next; a.err != nil || a.res.GetIsError() || a.res.GetReplayed() {
				t.Errorf("the next one: %v, %v", a.res, a.err)
			}
			awaitInFlight(t, s, 0)
			if n := strings.Count(s.Log(), `"caller_left":true`); n != seats {
				t.Errorf("the log tells of %d callers that left", n)
			}
			if n := g.effects.Load(); n != seats+1 {
				t.Errorf("%d effects of %d calls", n, seats+1)
			}
		})
	}
}

// callersConfig is oneTool at URL, with further settings of the backend and the tool.
func callersConfig(backend, tool string) string {
	return "backends:\n  up: {" + backend + `http: {base_url: "URL", allow_private: true}}
tools:
  act: {` + tool + "backend: up, description: Does it., http: {method: POST, path: /act}}\n"
}
