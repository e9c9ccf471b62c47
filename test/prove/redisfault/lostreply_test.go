//go:build prove

package redisfault

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

func TestMain(m *testing.M) {
	// go-redis sleeps for a second between two tries to reach a lost server, and
	// notices only then that its client was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// silence is how long a store waits for a server that does not answer, where a
// proof makes it wait on purpose. On a busy machine it takes some time to connect:
// where that takes longer than the wait, nothing is ever answered.
const silence = 500 * time.Millisecond

// The server has done the step, and nobody hears what it answered. Of a third
// of the pipelines replies are lost, from one of them on: sometimes all
// three of a request, so that the caller is told that the store is not there,
// and must not run, and asks again.
func TestStoreRepliesAreLost(t *testing.T) {
	for _, c := range []struct {
		of   func(writes dedupe.State) bool
		name string
		how  string
		end  func(keep int) faultproxy.Action
		runs int
		tear int
	}{
		{isClaim, "claim", "and the connection closed", faultproxy.Close, proof.Runs(300, 10_000), 0},
		{isSettlement, "settle", "and the connection closed", faultproxy.Close, proof.Runs(300, 10_000), 0},
		{isClaim, "claim", "and the connection stays open", faultproxy.Mute, proof.Runs(60, 1_500), 0},
		{isSettlement, "settle", "and the connection stays open", faultproxy.Mute, proof.Runs(60, 1_500), 0},
		{isClaim, "claim", "in packets torn everywhere", faultproxy.Reset, proof.Runs(150, 2_000), 7},
		{isSettlement, "settle", "in packets torn everywhere", faultproxy.Reset, proof.Runs(150, 2_000), 7},
	} {
		t.Run(c.name+" "+c.how, func(t *testing.T) {
			server := redisserver.Start(t, redisserver.Options{})
			proxy := faultproxy.Start(t, server.Addr)
			proxy.Split(c.tear)
			lost := newLosses(c.of, 1.0/3, c.end)
			proxy.Hook(lost.watch)
			w := newWorkload(t, redisstore.Options{Addrs: []string{proxy.Addr()}, Timeout: timeoutFor(c.how)})
			began := time.Now()
			w.run(func() bool { return lost.calls() >= c.runs }, w.recorded(server.Addr))
			counts := proxy.Counts()
			if counts.Closed+counts.Muted+counts.Reset == 0 || c.tear > 0 && counts.Torn == 0 {
				t.Errorf("the fault never came about: %+v", counts)
			}
			t.Logf("%v: %+v", time.Since(began), counts)
			proof.Report(t, proof.Row{
				Fault: fmt.Sprintf("reply to %s lost %s", c.name, c.how), Store: "redis",
				Runs: lost.calls(), Violations: w.violations,
				Figure: fmt.Sprintf("%d replies lost of %d calls, of %d ids × %d callers; %d executions, %d replays alike, %d told to ask again",
					lost.lost.Load(), lost.calls(), w.ids.Load(), duplicates, w.executions.Load(), w.replays.Load(), w.again.Load()),
			})
		})
	}
}

// timeoutFor is short where nothing but a time-out ends the wait.
func timeoutFor(how string) time.Duration {
	if how == "and the connection stays open" {
		return silence
	}
	return 0
}
