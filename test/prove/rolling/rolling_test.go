//go:build prove

package rolling

import (
	"fmt"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

const (
	sidecars = 3
	// between is how many ids have their results between one replacement and the next.
	between = rate / 2
)

// Pods are replaced one after the other, as a rolling update does: the next one, of
// another name, is ready first; then the one before is told to end, while agents that do
// not know of it yet go on sending it calls.
func TestPodsAreReplaced(t *testing.T) {
	f := newFleet(t)
	redis := redisserver.Start(t, redisserver.Options{})
	pods := 0
	pod := func() *endpoint {
		pods++
		return f.add(harness.Start(t, fmt.Sprintf("instance: agent-%d\n", pods)+f.config(fmt.Sprintf("{redis: {addrs: [%q]}}", redis.Addr))))
	}
	var running []*endpoint
	for range sidecars {
		running = append(running, pod())
	}
	stop, began := f.start(), time.Now()
	replaced := 0
	for range proof.Runs(2, 30) {
		for i, before := range running {
			f.awaitCalls(between)
			running[i] = pod()
			f.end(before)
			f.remove(before)
			replaced++
		}
	}
	f.awaitCalls(between)
	stop()
	f.report("pods replaced one after the other under 200 calls/s", "redis", replaced, time.Since(began))
}

// A sidecar with a store of its own is restarted beside its agent, which sends again what
// it has no result of until the next one is there.
func TestASidecarIsRestartedBesideItsAgent(t *testing.T) {
	f := newFleet(t)
	s := f.add(harness.Start(t, f.config("{embedded: {path: ./sidecall.db}}")))
	stop, began := f.start(), time.Now()
	restarts := proof.Runs(4, 60)
	for range restarts {
		f.awaitCalls(between)
		f.end(s)
		s.Run()
	}
	f.awaitCalls(between)
	stop()
	f.report("restarted beside its agent under 200 calls/s", "embedded", restarts, time.Since(began))
}
