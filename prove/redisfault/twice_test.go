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

	"github.com/sidecall/sidecall/e2e/harness"
	"github.com/sidecall/sidecall/prove/proof"
	"github.com/sidecall/sidecall/prove/redisserver"
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
	if control.twice == 0 {
		t.Errorf("without wait_replicas none of %d calls ran twice: this fault shows nothing", control.ids)
	}
	proof.Report(t, proof.Row{
		Fault: "every call again after a Sentinel failover, replication link cut", Store: "redis, wait_replicas: 1",
		Runs: kept.ids, Violations: kept.twice,
		Figure: fmt.Sprintf("of %d calls that had run %d ran twice; control without wait_replicas: of %d %d ran twice", kept.ids, kept.twice, control.ids, control.twice),
	})
}

// secondRuns counts the calls that had run when all of them were made again,
// and those that ran twice.
type secondRuns struct{ ids, twice int }

func callAgainAfterFailover(t *testing.T, waitReplicas int) secondRuns {
	t.Helper()
	w := startWatched(t)
	s := startSidecars(t, fmt.Sprintf("addrs: [%s], master_name: %s, wait_replicas: %d", strings.Join(w.addrs, ", "), masterName, waitReplicas))
	stop := s.callAllTheTime()
	harness.WaitFor(t, "calls", func() bool { return s.upstream.Ledger.Total() >= proof.Runs(300, 5_000) })
	w.breakLink(linkFaults[0], proof.Pick(time.Second, 3*time.Second))
	w.failOver()
	redisserver.StartReplica(t, w.replica.Addr, redisserver.Options{})
	stop()
	harness.WaitFor(t, "calls on the new master", func() bool { return s.runs(fmt.Sprint("after", s.ids.Add(1))) })

	ids := slices.Collect(maps.Keys(s.upstream.Ledger.Counts()))
	limit := make(chan struct{}, 32)
	var calls sync.WaitGroup
	for _, id := range ids {
		limit <- struct{}{}
		calls.Go(func() {
			s.runs(id)
			<-limit
		})
	}
	calls.Wait()
	result := secondRuns{ids: len(ids)}
	for _, n := range s.upstream.Ledger.Counts() {
		if n > 1 {
			result.twice++
		}
	}
	return result
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
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	res, err := s.all[len(id)%len(s.all)].Client.ExecuteTool(ctx, requestOf(id))
	return err == nil && !res.GetIsError()
}
