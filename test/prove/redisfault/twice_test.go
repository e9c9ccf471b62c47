//go:build prove

package redisfault

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// What a lost claim means: after the failover every call that had run is made
// again, and the ledger of the upstream tells which of them ran again. Without
// wait_replicas some have to.
func TestNothingRunsTwiceAfterAFailover(t *testing.T) {
	var kept, control secondRuns
	t.Run("both", func(t *testing.T) {
		t.Run("with wait_replicas", func(t *testing.T) {
			t.Parallel()
			kept = callAgainAfterFailover(t, 1)
		})
		t.Run("without", func(t *testing.T) {
			t.Parallel()
			control = callAgainAfterFailover(t, 0)
		})
	})
	if control.twice == 0 || control.untold > 0 {
		t.Errorf("without wait_replicas, of %d calls %d ran twice, and %d were never answered again: this fault shows nothing",
			control.told(), control.twice, control.untold)
	}
	proof.Report(t, proof.Row{
		Fault: "every call again after a Sentinel failover, replication link cut", Store: "redis, wait_replicas: 1",
		Runs: kept.told(), Violations: kept.twice + kept.untold,
		Figure: fmt.Sprintf("of %d calls that had run %d ran twice (%d replayed, %d unknown); control without wait_replicas: of %d %d ran twice",
			kept.told(), kept.twice, kept.replayed, kept.unknown, control.told(), control.twice),
	})
}

// secondRuns counts the calls that had run when all of them were made again:
// what each was told in the end, and how many ran twice. A call that never gets
// past the store cannot run twice, and so shows nothing.
type secondRuns struct{ replayed, unknown, untold, twice int }

func (s secondRuns) told() int { return s.replayed + s.unknown }

// leaseOfTwice is short, so that a call whose settlement alone was lost is
// unknown soon.
const leaseOfTwice = 5 * time.Second

func callAgainAfterFailover(t *testing.T, waitReplicas int) secondRuns {
	t.Helper()
	w := startWatched(t)
	store := fmt.Sprintf("addrs: [%s], master_name: %s, wait_replicas: %d", strings.Join(w.addrs, ", "), masterName, waitReplicas)
	s := startSidecars(t, store, fmt.Sprintf("lease: %v", leaseOfTwice))
	stop := s.callAllTheTime()
	harness.WaitFor(t, "calls", func() bool { return s.upstream.Ledger.Total() >= proof.Runs(300, 5_000) })
	w.breakLink(linkFaults[0], proof.Pick(time.Second, 3*time.Second))
	w.failOver()
	redisserver.StartReplica(t, w.replica.Addr, redisserver.Options{})
	stop()
	harness.WaitFor(t, "calls on the new master", func() bool { return s.runs(fmt.Sprint("after", s.ids.Add(1))) })

	result := s.callAgain(slices.Collect(maps.Keys(s.upstream.Ledger.Counts())))
	for _, n := range s.upstream.Ledger.Counts() {
		if n > 1 {
			result.twice++
		}
	}
	return result
}

// callAgain makes calls that have run once more, until each is told what became
// of it, or so many are told nothing that the rest need not be asked.
func (s *sidecars) callAgain(ids []string) (sum secondRuns) {
	var mu sync.Mutex
	limit := make(chan struct{}, 32)
	var calls sync.WaitGroup
	for _, id := range ids {
		limit <- struct{}{}
		calls.Go(func() {
			defer func() { <-limit }()
			res, err := s.untilTold(id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case res.GetReplayed():
				sum.replayed++
			case isUnknown(res):
				sum.unknown++
			default:
				sum.untold++
				s.violation("%s, called again, was never told what became of it: %v, %v", id, res, err)
			}
		})
	}
	calls.Wait()
	return sum
}

// untilTold makes a call again and again until the answer is that of a call
// which had been made before, and returns the last answer. One that runs anew
// is replayed at the next try, and the ledger has it twice.
func (s *sidecars) untilTold(id string) (res *sidecallv1.ExecuteToolResponse, err error) {
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline) && s.violations() < 10; {
		if res, err = s.once(id); err == nil && (res.GetReplayed() || isUnknown(res)) {
			return res, nil
		}
		time.Sleep(20 * time.Millisecond) // before the next try
	}
	return res, err
}

func isUnknown(res *sidecallv1.ExecuteToolResponse) bool {
	return res.GetError().GetCode() == "OUTCOME_UNKNOWN"
}

// callAllTheTime makes one call after the other until it is stopped, whatever
// becomes of them.
func (s *sidecars) callAllTheTime() (stop func()) {
	quit := make(chan struct{})
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for {
				select {
				case <-quit:
					return
				default:
					s.runs(fmt.Sprint("id", s.ids.Add(1)))
				}
			}
		})
	}
	return func() {
		close(quit)
		callers.Wait()
	}
}

// runs makes a call, and tells whether it worked within a few seconds.
func (s *sidecars) runs(id string) bool {
	res, err := s.once(id)
	return err == nil && !res.GetIsError()
}

// once makes a call, which may take a few seconds.
func (s *sidecars) once(id string) (*sidecallv1.ExecuteToolResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return s.all[len(id)%len(s.all)].Client.ExecuteTool(ctx, requestOf(id))
}
