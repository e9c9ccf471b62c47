//go:build prove

package topology

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

const (
	// instance is the sidecar's name, whose key is in one shard of the Cluster.
	instance = "prove"
	// leased is the lease of a call, which runs out three times while a server is away.
	leased = 5 * time.Second
	// inFlight is how many callers there are, and calls how many ids they have.
	inFlight, calls = 256, 3000
	// betweenSends is the pause of a caller before it sends what was refused again.
	betweenSends = 50 * time.Millisecond
)

// shortage is a Cluster one of whose shards has fewer servers than wait_replicas asks
// for, for longer than a lease: what is claimed there meanwhile is not acknowledged, and
// not sent.
type shortage struct {
	*testing.T
	cluster *redisserver.Cluster
	sidecar *harness.Sidecar
	up      *upstream.Server

	worked, refused, unknown, violations atomic.Int64

	mu      sync.Mutex // guards slowest
	slowest time.Duration
}

func startShortage(t *testing.T) *shortage {
	t.Helper()
	api := upstream.New(upstream.NewLedger())
	api.Script("/pay", upstream.Echo().After(100*time.Millisecond))
	up, err := upstream.Start(api, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	c := redisserver.StartCluster(t, 3, 3)
	return &shortage{T: t, cluster: c, up: up, sidecar: harness.Start(t, fmt.Sprintf(`
instance: %s
lease: %s
store: {redis: {addrs: ["%s"], cluster: true, wait_replicas: 1}}
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools: {pay: {backend: up, http: {method: POST, path: /pay}}}
`, instance, leased, strings.Join(c.Addrs(), `", "`), up.URL))}
}

// master is the one that has the key of the instance, or another.
func (s *shortage) master(ofInstance bool) *redisserver.Server {
	s.Helper()
	its := s.cluster.MasterOf(s.cluster.Slot("sidecall:instance/" + instance))
	for _, other := range s.cluster.Masters() {
		if (other == its) == ofInstance {
			return other
		}
	}
	s.Fatal("the Cluster has no such master")
	return nil
}

func id(n int) string { return fmt.Sprint("id", n) }

// send makes a call once, and says whether it worked.
func (s *shortage) send(n int) (worked bool) {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	began := time.Now()
	res, err := s.sidecar.Client.ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{
		ToolUseId: id(n), ConversationId: fmt.Sprint("c", n%97), ToolName: "pay", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id(n)),
	})
	s.mu.Lock()
	s.slowest = max(s.slowest, time.Since(began))
	s.mu.Unlock()
	switch {
	case err == nil && !res.GetIsError():
		s.worked.Add(1)
		return true
	case err != nil:
		s.violate("%s: %v", id(n), err)
	case res.GetError().GetCode() == "OUTCOME_UNKNOWN":
		s.unknown.Add(1)
	}
	s.refused.Add(1)
	return false
}

func (s *shortage) violate(format string, args ...any) {
	s.Helper()
	s.violations.Add(1)
	s.Errorf(format, args...)
}

// each does something with every call, by as many callers as there are.
func (s *shortage) each(do func(n int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range inFlight {
		all.Go(func() {
			for n := int(next.Add(1)); n <= calls; n = int(next.Add(1)) {
				do(n)
			}
		})
	}
	all.Wait()
}

// meanwhile makes calls, and loses a server under them. Half of the callers send what was
// refused again for as long as it is away; the others leave it.
func (s *shortage) meanwhile(lose func() (back func())) {
	s.Helper()
	over := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { // ends with over
		s.each(func(n int) {
			for !s.send(n) && n%2 == 0 {
				select {
				case <-over:
					return
				case <-time.After(betweenSends):
				}
			}
		})
	})
	harness.WaitFor(s, "calls to work", func() bool { return s.worked.Load() >= 96 })
	back := lose()
	harness.WaitFor(s, "calls to be refused", func() bool { return s.refused.Load() >= 32 })
	time.Sleep(3 * leased) // the fault is a length of time
	close(over)
	load.Wait()
	back()
}

// unreached are how many calls the upstream has not heard of.
func (s *shortage) unreached() (n int) {
	for i := range calls {
		if s.up.Ledger.Executions(id(i+1)) == 0 {
			n++
		}
	}
	return n
}

// again sends every call under its id until it has its result.
func (s *shortage) again() {
	s.Helper()
	s.each(func(n int) {
		for until := time.Now().Add(patience); !s.send(n); time.Sleep(betweenSends) {
			if time.Now().After(until) {
				s.violate("%s never has a result", id(n))
				return
			}
		}
	})
	for i := range calls {
		if ran := s.up.Ledger.Executions(id(i + 1)); ran != 1 {
			s.violate("%s ran %d times", id(i+1), ran)
		}
	}
}

// provesNothingIsLost has each shard lose a server: the one that has the instance, without
// which the sidecar claims nothing at all, and another.
func provesNothingIsLost(t *testing.T, what string, lose func(s *shortage, master *redisserver.Server) (back func())) {
	t.Helper()
	row := proof.Row{Fault: "calls under way on a Cluster that loses a " + what, Store: "redis, wait_replicas: 1"}
	var figures []string
	for _, ofInstance := range []bool{true, false} {
		s := startShortage(t)
		s.meanwhile(func() func() { return lose(s, s.master(ofInstance)) })
		refused, unknown, unreached := s.refused.Load(), s.unknown.Load(), s.unreached()
		if unreached < inFlight {
			t.Errorf("all but %d calls had reached the upstream: this shows nothing", unreached)
		}
		s.again()
		row.Runs += calls
		row.Violations += int(s.violations.Load())
		figures = append(figures, fmt.Sprintf("%d refusals, %d of them OUTCOME_UNKNOWN, and %d ids that had not reached the upstream; slowest answer %v",
			refused, unknown, unreached, s.slowest.Round(time.Millisecond)))
		s.sidecar.Stop()
		s.cluster.KillAll()
	}
	row.Figure = "the shard of the instance: " + figures[0] + "; another: " + figures[1] + "; sent again under its id each ran once"
	proof.Report(t, row)
}

// A master dies. Its replica takes over, and has none of its own until the old master
// is back.
func TestTheClusterLosesAMaster(t *testing.T) {
	provesNothingIsLost(t, "master", func(s *shortage, old *redisserver.Server) func() {
		heir := s.cluster.ReplicaOf(old)
		old.Kill()
		s.cluster.AwaitHeir(old, heir)
		return func() { s.returns(old) }
	})
}

// A replica dies, and its master goes on.
func TestTheClusterLosesAReplica(t *testing.T) {
	provesNothingIsLost(t, "replica", func(s *shortage, master *redisserver.Server) func() {
		replica := s.cluster.ReplicaOf(master)
		replica.Kill()
		return func() { s.returns(replica) }
	})
}

// returns starts a server again, as a replica.
func (s *shortage) returns(server *redisserver.Server) {
	s.Helper()
	server.Restart()
	server.AwaitInfo("master_link_status", "up")
	s.cluster.AwaitOK()
}
