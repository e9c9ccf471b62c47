//go:build e2e

package worker_test

import (
	"fmt"
	"testing"

	"github.com/sidecall/sidecall/failpoint"
	"github.com/sidecall/sidecall/testkit/harness"
)

// The sidecar is killed at every step of a call that a worker serves, and asked again
// under the same id when it is back: the function runs once at the most, and not at all
// where nothing can have been sent.
func TestASidecarThatIsKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for step, most := range map[failpoint.Name]struct {
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
	} {
		for _, store := range []string{"embedded", "redis"} {
			t.Run(string(step)+" on "+store, func(t *testing.T) {
				t.Parallel()
				config := local
				if store == "redis" {
					config += fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", harness.Redis(t))
				}
				killedAt(t, config, step, most.code, most.ran)
			})
		}
	}
}

// killedAt kills the sidecar of a config at a step, and asks again.
func killedAt(t *testing.T, config string, step failpoint.Name, code string, ran int) {
	t.Helper()
	s := harness.New(t, config)
	s.Fail(fmt.Sprintf("%s=kill@1", step))
	s.Run()
	y := yardOf(t, s)
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
