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
	"github.com/sidecall/sidecall/prove/proof"
	"github.com/sidecall/sidecall/testkit/harness"
	"github.com/sidecall/sidecall/testkit/redisserver"
	"github.com/sidecall/sidecall/testkit/upstream"
)

const (
	// instance is the sidecar's name, whose key is in one slot of the Cluster.
	instance = "prove"
	// leased is the lease of a call. What is refused under it is given back after it,
	// too: so long is the outage.
	leased = 2 * time.Second
	// inFlight is how many callers there are.
	inFlight = 32
)

// short is a Cluster in which a shard has one server less than wait_replicas asks for,
// for longer than a lease: what is claimed there meanwhile is not acknowledged, and not sent.
type short struct {
	*testing.T
	cluster *redisserver.Cluster
	sidecar *harness.Sidecar
	up      *upstream.Server

	done, refused atomic.Int64
	mu            sync.Mutex
	codes         map[string]int
	slowest       time.Duration
}

func startShort(t *testing.T) *short {
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
	s := harness.Start(t, fmt.Sprintf(`
instance: %s
lease: %s
store: {redis: {addrs: ["%s"], cluster: true, wait_replicas: 1}}
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools: {pay: {backend: up, http: {method: POST, path: /pay}}}
`, instance, leased, strings.Join(c.Addrs(), `", "`), up.URL))
	return &short{T: t, cluster: c, sidecar: s, up: up, codes: map[string]int{}}
}

// send makes a call once, and says whether it worked.
func (s *short) send(n int) (worked bool) {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	began := time.Now()
	res, err := s.sidecar.Client.ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{
		ToolUseId: id(n), ConversationId: fmt.Sprint("c", n%97), ToolName: "pay", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id(n)),
	})
	code := res.GetError().GetCode()
	if err != nil {
		code = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code]++
	s.slowest = max(s.slowest, time.Since(began))
	if err != nil || res.GetIsError() {
		s.refused.Add(1)
		return false
	}
	s.done.Add(1)
	return true
}

func id(n int) string { return fmt.Sprint("id", n) }

// each does something with every call, by as many callers as there are.
func (s *short) each(calls int, do func(n int)) {
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

// prove makes calls while a shard has too few servers. Half of the callers send what was
// refused again as long as that lasts.
func (s *short) prove(name string, calls int, lose func() (back func())) {
	over := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		s.each(calls, func(n int) {
			for !s.send(n) && n%2 == 0 {
				select {
				case <-over:
					return
				case <-time.After(50 * time.Millisecond): // before it is sent again
				}
			}
		})
	})
	harness.WaitFor(s, "calls to end", func() bool { return s.done.Load() >= 3*inFlight })
	back := lose()
	harness.WaitFor(s, "calls to be refused", func() bool { return s.refused.Load() >= inFlight })
	time.Sleep(3 * leased) // the fault is a length of time
	close(over)
	load.Wait()
	back()
	harness.WaitFor(s, "the sidecar to be ready", func() bool { code, _ := s.sidecar.Get("/readyz"); return code == 200 })
	s.Logf("%s: answers %v, slowest %v", name, s.codes, s.slowest)

	neverReached, refused := 0, s.refused.Load()
	for n := 1; n <= calls; n++ {
		if s.up.Ledger.Executions(id(n)) == 0 {
			neverReached++
		}
	}
	violations := atomic.Int64{}
	s.each(calls, func(n int) {
		for until := time.Now().Add(patience); !s.send(n); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				violations.Add(1)
				s.Errorf("%s never has a result", id(n))
				return
			}
		}
	})
	s.Logf("%s: all answers %v", name, s.codes)
	for n := 1; n <= calls; n++ {
		if ran := s.up.Ledger.Executions(id(n)); ran != 1 {
			violations.Add(1)
			s.Errorf("%s ran %d times", id(n), ran)
		}
	}
	if neverReached == 0 {
		s.Errorf("every call was made while there was too little of the Cluster: this shows nothing")
	}
	proof.Report(s, proof.Row{
		Fault: name, Store: "redis, wait_replicas: 1", Runs: calls, Violations: int(violations.Load()),
		Figure: fmt.Sprintf("%d answers refused %d calls of which none had reached the upstream; sent again under its id each ran once; slowest answer %v",
			refused, neverReached, s.slowest.Round(time.Millisecond)),
	})
}

// A master dies. Its replica takes over, and has none of its own until the old master is back.
func TestTheClusterLosesAMaster(t *testing.T) {
	s := startShort(t)
	s.prove("calls under way on a Cluster that loses a master", 800, func() func() {
		old := s.cluster.MasterOf(s.cluster.Slot("sidecall:instance/" + instance))
		heir := s.cluster.ReplicaOf(old)
		old.Kill()
		s.cluster.AwaitHeir(old, heir)
		return func() {
			old.Restart()
			old.AwaitInfo("master_link_status", "up")
			s.cluster.AwaitOK()
		}
	})
}

// A replica dies, and its master goes on.
func TestTheClusterLosesAReplica(t *testing.T) {
	s := startShort(t)
	s.prove("calls under way on a Cluster that loses a replica", 800, func() func() {
		lost := s.cluster.ReplicaOf(s.cluster.MasterOf(s.cluster.Slot("sidecall:instance/" + instance)))
		lost.Kill()
		return func() {
			lost.Restart()
			lost.AwaitInfo("master_link_status", "up")
			s.cluster.AwaitOK()
		}
	})
}
