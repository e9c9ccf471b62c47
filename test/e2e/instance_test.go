//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// asInstance is onRedis for an instance of a name, with a lease that no test
// outlasts: a call that waited for it would be IN_PROGRESS.
func asInstance(name, addr, url string) string {
	return fmt.Sprintf("instance: %q\nlease: 10m\njournal: {enabled: false}\n", name) + onRedis(addr, url)
}

// sendHeld sends a call whose answer the gate holds back; what its caller hears is
// received from the channel.
func sendHeld(t *testing.T, s *harness.Sidecar, g *gate, req *sidecallv1.ExecuteToolRequest) <-chan error {
	t.Helper()
	heard := make(chan error, 1)
	go func() {
		_, err := execute(t, s, req)
		heard <- err
	}()
	<-g.arrived
	return heard
}

// Killed in the middle of its calls, and started again: what it had claimed is
// decided at once, though its leases run on.
func TestTheNextIncarnationDecidesAtOnce(t *testing.T) {
	t.Parallel()
	g := startGate(t)
	addr := durableRedis(t).Addr
	s, other := harness.New(t, asInstance("shop", addr, g.URL)), harness.New(t, asInstance("other", addr, g.URL))
	s.Run()
	other.Run()
	put := callOf("put")
	put.ToolName = "put"
	calls := []<-chan error{sendHeld(t, s, g, callOf("act")), sendHeld(t, s, g, put), sendHeld(t, s, g, callOf("swept"))}
	s.Kill()
	for _, heard := range calls {
		if err := <-heard; err == nil {
			t.Error("a caller of the process that was killed has an answer")
		}
	}
	close(g.open)
	before := g.effects.Load()

	s.Run()
	if e := executionOf(t, s, "act"); e.GetState() != stateUnknown {
		t.Errorf("after the start the call is %v", e)
	}
	if res := s.Call(callOf("act")); res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
		t.Errorf("sent again it gets %v", res)
	}
	if res := s.Call(put); res.GetIsError() || res.GetReplayed() {
		t.Errorf("what may be repeated gets %v", res)
	}
	if n := g.effects.Load() - before; n != 1 {
		t.Errorf("%d effects after the start, want that of put", n)
	}
	if log := s.Log(); !strings.Contains(log, `"instance":"shop"`) || !strings.Contains(log, "instance taken") {
		t.Errorf("the log says nothing of the instance:\n%s", log)
	}
}

// A process that lives keeps its name: another one does not start under it.
func TestASecondProcessOfALivingInstance(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	addr := harness.Redis(t)
	first, second := harness.Start(t, asInstance("shop", addr, up.URL)), harness.New(t, asInstance("shop", addr, up.URL))
	ready, code := second.Try()
	if log := second.Log(); ready || code != 3 || !strings.Contains(log, "another process runs as instance") ||
		!strings.Contains(log, fmt.Sprintf("pid %d", first.PID())) || !strings.Contains(log, "set `instance`") {
		t.Errorf("ready %t, exit code %d:\n%s", ready, code, log)
	}
	if res := first.Call(callOf("after")); res.GetIsError() {
		t.Errorf("the first answers %v", res)
	}
	first.Stop() // well, so that its name is free
	second.Run()
	if res := second.Call(callOf("after")); !res.GetReplayed() {
		t.Errorf("the second answers %v", res)
	}
}

// A process that is stopped is succeeded. When it goes on it sends nothing, claims
// and settles nothing, and ends.
func TestAStoppedPredecessor(t *testing.T) {
	t.Parallel()
	g := startGate(t)
	redis := redisserver.Start(t, redisserver.Options{})
	first, second := harness.New(t, asInstance("shop", redis.Addr, g.URL)), harness.New(t, asInstance("shop", redis.Addr, g.URL))
	first.Fail("request.unsent=stop@2") // the second call stops it before it is sent
	first.Run()
	sent := sendHeld(t, first, g, callOf("sent"))
	unsent := make(chan error, 1)
	go func() {
		res, err := execute(t, first, callOf("unsent"))
		if err == nil && res.GetError().GetCode() != "STORE_UNAVAILABLE" {
			err = fmt.Errorf("the call that was not sent got %v", res)
		}
		unsent <- err
	}()
	first.AwaitStopped()

	second.Run()
	for _, id := range []string{"sent", "unsent"} {
		if res := second.Call(callOf(id)); res.GetError().GetCode() != "OUTCOME_UNKNOWN" {
			t.Errorf("%s: sent again it gets %v", id, res)
		}
	}
	records := redis.Do("dbsize")
	close(g.open) // the answer lies in the socket when it goes on
	first.Signal(syscall.SIGCONT)
	if code := first.Wait(); code != 3 || !strings.Contains(first.Log(), "another process runs as instance") {
		t.Errorf("exit code %d:\n%s", code, first.Log())
	}
	<-sent
	if err := <-unsent; err != nil && !strings.Contains(err.Error(), "Unavailable") {
		t.Error(err)
	}
	if n := g.effects.Load(); n != 1 {
		t.Errorf("%d effects, want that of the call that was sent before", n)
	}
	for _, id := range []string{"sent", "unsent"} {
		if e := executionOf(t, second, id); e.GetState() != stateUnknown || e.GetAttempts() != 0 {
			t.Errorf("%s: the predecessor has settled it: %v", id, e)
		}
	}
	if now := redis.Do("dbsize"); now != records {
		t.Errorf("there were %v keys, and are %v", records, now)
	}
}
