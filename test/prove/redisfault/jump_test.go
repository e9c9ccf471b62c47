//go:build prove

package redisfault

import (
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// retention is the default: a clock that jumps by more has every record expire.
const retention = 24 * time.Hour

// leased is a config with a lease. shortLease is longer than a machine stands still,
// so that calls are begun under it; of longLease the first renewal is minutes away.
const (
	leased = `
lease: %s
store: {redis: {addrs: [%q]}}
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools:
  act: {backend: up, http: {method: POST, path: /act}}
`
	shortLease, longLease = "8s", "10m"
)

// jumps is two sidecars on a Redis whose clock jumps while calls of the one run.
type jumps struct {
	*worked
	t            *testing.T
	redis        *redisserver.Server
	owner, other *harness.Sidecar
	violations   int
}

func startJumps(t *testing.T, lease string) *jumps {
	w := &worked{executions: map[string]int{}}
	up := httptest.NewServer(w)
	t.Cleanup(up.Close)
	redis := redisserver.Start(t, redisserver.Options{Clock: true})
	config := fmt.Sprintf(leased, lease, redis.Addr, up.URL)
	return &jumps{worked: w, t: t, redis: redis, owner: harness.Start(t, config), other: harness.Start(t, config)}
}

func (j *jumps) violate(format string, args ...any) {
	j.t.Helper()
	j.violations++
	j.t.Errorf(format, args...)
}

// begin has the owner run calls; end waits for their results.
func (j *jumps) begin(name string, calls int) (ids []string, end func() []*sidecallv1.ExecuteToolResponse) {
	j.close()
	results := make([]*sidecallv1.ExecuteToolResponse, calls)
	var running sync.WaitGroup
	for i := range calls {
		id := fmt.Sprintf("%s-%d", name, i)
		ids = append(ids, id)
		running.Go(func() { results[i] = sent(j.t, j.owner, id) })
	}
	harness.WaitFor(j.t, "the calls to run", func() bool { return j.of(ids) == calls })
	return ids, func() []*sidecallv1.ExecuteToolResponse {
		j.open()
		running.Wait()
		return results
	}
}

// known is how many records there are.
func (j *jumps) known(ids []string) int64 {
	names := []any{"exists"}
	for _, id := range ids {
		names = append(names, redisstore.RecordKey("sidecall:", tool.CallID{Conversation: "c", ID: id}))
	}
	n, _ := j.redis.Do(names...).(int64)
	return n
}

func (j *jumps) state(s *harness.Sidecar, id string) sidecallv1.ExecutionState {
	record, err := s.Client.GetExecution(j.t.Context(), &sidecallv1.GetExecutionRequest{ConversationId: "c", ToolUseId: id})
	if err != nil {
		return sidecallv1.ExecutionState_EXECUTION_STATE_UNSPECIFIED
	}
	return record.GetState()
}

// settled wants each call done and recorded, run once, and replayed elsewhere.
func (j *jumps) settled(ids []string, results []*sidecallv1.ExecuteToolResponse) {
	for i, id := range ids {
		if results[i].GetIsError() || !results[i].GetRecorded() {
			j.violate("%s: its owner says %v", id, results[i])
		}
		if res := sent(j.t, j.other, id); !res.GetReplayed() || res.GetContent() != results[i].GetContent() {
			j.violate("%s: replayed as %v", id, res)
		}
	}
	if n := j.of(ids); n != len(ids) {
		j.violate("%d executions of %d calls", n, len(ids))
	}
}

// pastTheRetention: each record expires, again and again. By the next renewal its
// owner has written it back as UNKNOWN, and nobody runs it.
func (j *jumps) pastTheRetention(round, calls int) {
	ids, end := j.begin(fmt.Sprintf("retention%d", round), calls)
	for range 3 {
		j.redis.Jump(retention + time.Hour)
		harness.WaitFor(j.t, "the records to be written back", func() bool { return j.known(ids) == int64(calls) })
		for _, id := range ids {
			if state := j.state(j.other, id); state != sidecallv1.ExecutionState_EXECUTION_STATE_UNKNOWN {
				j.violate("%s, after the jump: %s", id, state)
			}
			if res := sent(j.t, j.other, id); res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
				j.violate("%s, while it runs elsewhere: %v", id, res)
			}
		}
	}
	j.settled(ids, end())
}

// pastTheLease: a duplicate elsewhere is told that the outcome is unknown, or waits
// when the owner has been faster to renew; it never runs the call.
func (j *jumps) pastTheLease(round, calls int) {
	ids, end := j.begin(fmt.Sprintf("lease%d", round), calls)
	j.redis.Jump(time.Hour)
	if n := j.known(ids); n != int64(calls) {
		j.violate("%d of %d records are there", n, calls)
	}
	told := make([]*sidecallv1.ExecuteToolResponse, calls)
	var elsewhere sync.WaitGroup
	for i, id := range ids {
		elsewhere.Go(func() { told[i] = sent(j.t, j.other, id) })
	}
	// Each is told, or waits: it has nothing to wait for after the end.
	results := end()
	elsewhere.Wait()
	for i, id := range ids {
		if told[i].GetError().GetCode() != "OUTCOME_UNKNOWN" && told[i].GetContent() != results[i].GetContent() {
			j.violate("%s, while it ran: %v", id, told[i])
		}
	}
	j.settled(ids, results)
}

// window is what is left: until the next renewal the store knows nothing of a call
// that runs. Where it runs a duplicate joins it; elsewhere it runs once more.
func window(t *testing.T, calls int) (twice int) {
	j := startJumps(t, longLease)
	ids, end := j.begin("window", calls)
	j.redis.Jump(retention + time.Hour)
	if n := j.known(ids); n != 0 {
		t.Fatalf("the records of %d of %d calls are there: the clock has not jumped", n, calls)
	}
	var again sync.WaitGroup
	for i, id := range ids {
		s := j.owner
		if i%2 == 1 {
			s = j.other
		}
		again.Go(func() { sent(t, s, id) })
	}
	harness.WaitFor(t, "the duplicates elsewhere to run", func() bool { return j.of(ids) == calls+calls/2 })
	end()
	again.Wait()
	for i, id := range ids {
		if n := j.of([]string{id}); n != 1+i%2 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
	return j.of(ids) - calls
}

// TestTheClockOfRedisJumps: the clock of a real server, while calls run.
func TestTheClockOfRedisJumps(t *testing.T) {
	rounds, calls := proof.Runs(1, 10), 60
	j := startJumps(t, shortLease)
	for round := range rounds {
		j.pastTheLease(round, calls)
		j.pastTheRetention(round, calls)
		// A process that lives goes on, whatever Redis thinks of its instance.
		if res := sent(t, j.owner, fmt.Sprint("after", round)); res.GetIsError() || !res.GetRecorded() {
			j.violate("a call after the jumps: %v", res)
		}
	}
	control := window(t, 10)
	if control == 0 {
		j.violate("before a renewal nothing ran twice: the jump did nothing")
	}
	proof.Report(t, proof.Row{
		Fault: "Redis's clock jumps while calls run", Store: "redis", Runs: 2 * rounds * calls, Violations: j.violations,
		Figure: fmt.Sprintf("past the lease, past the retention; %d calls running; UNKNOWN elsewhere from the next renewal on, run once, recorded at their end; control: of 10 sent again before it, 5 of them elsewhere, %d ran twice",
			2*rounds*calls, control),
	})
}
