//go:build prove

package histories

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// TestRedis: several processes on one server, which are stopped for a while and
// whose connections are cut now and then.
func TestRedis(t *testing.T) {
	const clients, lanes = 5, 16
	addr := redisserver.Start(t, redisserver.Options{}).Addr
	run := newProof(t, "redis", proof.Runs(3_000, 50_000))
	run.need = append(run.need, SawResent)
	run.behind = 100 * time.Millisecond // its processes are stopped, and machines that prove are busy
	heard := func(m message) { run.recorder.Add(m.Phase, *m.Op) }
	processes := make([]*process, 3)
	for i := range processes {
		processes[i], _ = start(t, job{Redis: addr, Cut: i == 1}, heard)
	}
	shares := [][]int{{0, 1}, {2, 3}, {4}}
	last := redisstore.New(redisstore.Options{Addrs: []string{addr}, Timeout: unheardOf})
	defer closing(t, last)

	finished := make(chan struct{})
	stops := make(chan int, 1)
	go func() { stops <- stopNowAndThen(t, processes, finished) }()
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for history, more := run.next(); more; history, more = run.next() {
				order := Order{Seed: run.seed, History: history, Total: clients}
				if !together(processes, shares, order) {
					t.Error("a worker is gone")
					return
				}
				order.Conclude = true
				order.Perform(context.Background(), last, Client{
					Now: monotonic, Ended: func(op Operation) { run.recorder.Add(0, op) },
				})
				run.check(history, nil, nil)
			}
		})
	}
	wg.Wait()
	close(finished)
	stopped := <-stops
	if stopped == 0 {
		t.Error("no process was ever stopped")
	}
	run.figure("%d processes stopped %d times, %d requests perhaps sent again", len(processes), stopped, run.coverage[SawResent])
	for _, p := range processes {
		p.end(t)
	}
	run.report()
}

// together gives each process its share of an order, and waits for all of them.
func together(processes []*process, shares [][]int, order Order) bool {
	done := make([]<-chan struct{}, len(processes))
	for i, p := range processes {
		order.Clients = shares[i]
		done[i] = p.order(order)
	}
	all := true
	for i, p := range processes {
		all = p.wait(done[i]) && all
	}
	return all
}

// stopNowAndThen stops one process after the other for a while, often longer
// than a lease, and returns how often it did.
func stopNowAndThen(t *testing.T, processes []*process, finished <-chan struct{}) (stops int) {
	t.Helper()
	for {
		select {
		case <-finished:
			return stops
		case <-time.After(rand.N(200 * time.Millisecond)):
		}
		p := processes[rand.IntN(len(processes))]
		p.signal(t, syscall.SIGSTOP)
		time.Sleep(rand.N(40 * time.Millisecond)) // how long it is stopped
		p.signal(t, syscall.SIGCONT)
		stops++
	}
}
