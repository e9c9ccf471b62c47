//go:build e2e

package worker_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/sidecall/sidecall/internal/failpoint"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// The sidecar is killed at every step of a call that a worker serves, and asked again
// under the same id when it is back: the function runs once at the most, and not at all
// where nothing can have been sent.
func TestASidecarThatIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	steps := map[failpoint.Name]struct {
		code string
		ran  int
	}{
		failpoint.AdmissionUnsent:   {ran: 1},
		failpoint.AdmissionDurable:  {code: "OUTCOME_UNKNOWN"},
		failpoint.ClaimWon:          {code: "OUTCOME_UNKNOWN"},
		failpoint.RequestUnsent:     {code: "OUTCOME_UNKNOWN"},
		failpoint.RequestLeaving:    {code: "OUTCOME_UNKNOWN"},
		failpoint.ResponseRead:      {code: "OUTCOME_UNKNOWN", ran: 1},
		failpoint.ReplyInterpreted:  {code: "OUTCOME_UNKNOWN", ran: 1},
		failpoint.SettlementUnsent:  {code: "OUTCOME_UNKNOWN", ran: 1},
		failpoint.SettlementDurable: {ran: 1},
		failpoint.ResultUnsent:      {ran: 1},
		failpoint.ResultSent:        {ran: 1},
	}
	for i, step := range slices.Sorted(maps.Keys(steps)) {
		most := steps[step]
		onEach(t, i, []kind{inGo, inPy, inNode}, string(step), func(t *testing.T, store string, k kind) {
			t.Helper()
			killedAt(t, k, local+stored(t, store), step, most.code, most.ran)
		})
	}
}

// onEach runs f in parallel with every kind of worker and with every store; each with
// each where the tables are run as a whole, else every second of them, so that the i-th
// step has every kind and every store all the same.
func onEach(t *testing.T, i int, kinds []kind, step string, f func(t *testing.T, store string, k kind)) {
	t.Helper()
	for j, store := range []string{"embedded", "redis"} {
		for l, k := range kinds {
			if !harness.Whole() && (i+j+l)%2 != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%q on %s, %s", step, store, k), func(t *testing.T) {
				t.Parallel()
				f(t, store, k)
			})
		}
	}
}

// stored is the config of a store.
func stored(t *testing.T, store string) string {
	t.Helper()
	if store == "redis" {
		return fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", harness.Redis(t))
	}
	return ""
}

// killedAt kills the sidecar of a config at a step, and asks again.
func killedAt(t *testing.T, k kind, config string, step failpoint.Name, code string, ran int) {
	t.Helper()
	s := harness.New(t, config)
	s.Fail(fmt.Sprintf("%s=kill@1", step))
	s.Run()
	y := yardOf(t, k, s)
	p := y.hire(0)
	dying := y.asked("1", "act", `{"key":"A"}`)
	if signal, err := s.AwaitDeath(); err != nil {
		t.Fatal(signal, err)
	}
	<-dying
	s.Fail("")
	s.Run()
	p.registered(2)
	for range 2 {
		want(t, y.Call(request("1", "act", `{"key":"A"}`)), code)
	}
	if n := y.count("ran A"); n != ran {
		t.Errorf("it ran %d times; want %d", n, ran)
	}
}
