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
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			s := harness.New(t, local)
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
				want(t, y.Call(request("1", "act", `{"key":"A"}`)), most.code)
			}
			if n := y.count("ran A"); n != most.ran {
				t.Errorf("it ran %d times; want %d", n, most.ran)
			}
		})
	}
}
