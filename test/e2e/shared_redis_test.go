//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// durableRedis starts a redis-server that writes everything to its append-only
// file before it answers.
func durableRedis(t *testing.T) *redisserver.Server {
	t.Helper()
	return redisserver.Start(t, redisserver.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
}

// onRedis is a config with the tools act (POST), look (GET) and put (PUT).
func onRedis(addr, url string) string {
	return fmt.Sprintf("store: {redis: {addrs: [%q]}}\n", addr) + oneTool(url) +
		"  look: {backend: up, http: {method: GET, path: /look}}\n" +
		"  put: {backend: up, http: {method: PUT, path: /put}}\n"
}

// A call that runs in one sidecar is waited for in another.
func TestDuplicateOfACallInAnotherSidecar(t *testing.T) {
	t.Parallel()
	g := startGate(t)
	addr := harness.Redis(t)
	first, second := harness.Start(t, onRedis(addr, g.URL)), harness.Start(t, onRedis(addr, g.URL))
	answers := make(chan *sidecallv1.ExecuteToolResponse, 2)
	send := func(s *harness.Sidecar) {
		res, err := execute(t, s, callOf("slow"))
		if err != nil {
			t.Error(err)
		}
		answers <- res
	}
	go send(first)
	<-g.arrived
	if e := executionOf(t, second, "slow"); e.GetState() != stateClaimed || e.GetLeaseUntil() == nil {
		t.Errorf("seen from the other sidecar: %v", e)
	}
	go send(second)
	awaitInFlight(t, second, 1)
	close(g.open)
	a, b := <-answers, <-answers
	if a.GetIsError() || a.GetContent() != b.GetContent() || a.GetReplayed() == b.GetReplayed() {
		t.Errorf("the two answers are %v and %v", a, b)
	}
	if n := g.effects.Load(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

// Without its store the sidecar sends nothing that has an effect, still reads,
// says so, and recovers by itself.
func TestRedisKilledAndBack(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	redis := durableRedis(t)
	s := harness.Start(t, onRedis(redis.Addr, up.URL))
	before := s.Call(callOf("before"))
	if before.GetIsError() || !before.GetRecorded() {
		t.Fatalf("with the store up: %v", before)
	}

	redis.Kill()
	withoutStore(t, s, up, "down")

	redis.Restart()
	recovers(t, s, up, "down")
	if again := s.Call(callOf("before")); !again.GetReplayed() || again.GetContent() != before.GetContent() {
		t.Errorf("what was done before the outage is now %v, and was %v", again, before)
	}
	if n := up.Ledger.Executions("before"); n != 1 {
		t.Errorf("before was executed %d times", n)
	}
}

func TestStartWithoutRedis(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	redis := durableRedis(t)
	redis.Kill()
	s := harness.Start(t, onRedis(redis.Addr, up.URL))
	withoutStore(t, s, up, "early")
	redis.Restart()
	recovers(t, s, up, "early")
}

// withoutStore checks what a sidecar does while its store is down. Ids begin
// with prefix.
func withoutStore(t *testing.T, s *harness.Sidecar, up *upstream.Server, prefix string) {
	t.Helper()
	harness.WaitFor(t, "/readyz to say store_down", func() bool {
		code, body := readyz(t, s)
		return code == http.StatusServiceUnavailable && body.Status == "store_down"
	})
	sent := up.Ledger.Total()
	for _, name := range []string{"act", "put"} {
		req := callOf(prefix + name)
		req.ToolName = name
		res := s.Call(req)
		wantError(t, res, "STORE_UNAVAILABLE")
		if res.GetRecorded() || res.GetRecovery().GetAttempts() != 0 || !res.GetRecovery().GetRetryable() || res.GetRecovery().GetRetryAfter() == nil {
			t.Errorf("%s without the store: %v", name, res)
		}
	}
	if n := up.Ledger.Total() - sent; n != 0 {
		t.Errorf("%d executions without the store", n)
	}
	look := callOf(prefix + "look")
	look.ToolName = "look"
	if res := s.Call(look); res.GetIsError() || res.GetRecorded() || res.GetReplayed() {
		t.Errorf("a read_only tool without the store: %v", res)
	}
	_, err := s.Client.GetExecution(t.Context(), &sidecallv1.GetExecutionRequest{ToolUseId: prefix + "act"})
	wantCode(t, err, codes.Unavailable)
	lives(t, s)
}

// recovers checks that calls run again once the store is back, those that were
// refused too, and each of them once.
func recovers(t *testing.T, s *harness.Sidecar, up *upstream.Server, prefix string) {
	t.Helper()
	harness.WaitFor(t, "/readyz to say ready", func() bool {
		code, body := readyz(t, s)
		return code == http.StatusOK && body.Status == "ready"
	})
	for _, name := range []string{"act", "put"} {
		req := callOf(prefix + name)
		req.ToolName = name
		if res := s.Call(req); res.GetIsError() || !res.GetRecorded() || res.GetReplayed() {
			t.Errorf("%s with the store back: %v", name, res)
		}
		if res := s.Call(req); !res.GetReplayed() {
			t.Errorf("%s with the store back, a second time: %v", name, res)
		}
		if n := up.Ledger.Executions(prefix + name); n != 1 {
			t.Errorf("%s was executed %d times", name, n)
		}
	}
	lives(t, s)
}

// A Redis that may forget calls is refused at start, in one clear sentence.
func TestRedisThatEvictsIsRefused(t *testing.T) {
	t.Parallel()
	addr := harness.Redis(t, "--maxmemory-policy", "allkeys-lru")
	s := harness.New(t, onRedis(addr, "http://127.0.0.1:1"))
	says(t, refusedStart(t, s, 3), "noeviction", "allkeys-lru")
}

// Redis without a memory of its own is used, and warned about.
func TestRedisThatForgetsIsWarnedAbout(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, onRedis(harness.Redis(t), "http://127.0.0.1:1"))
	if log := s.Log(); !strings.Contains(log, `"level":"WARN"`) || !strings.Contains(log, "append-only") {
		t.Errorf("no warning that a restart of Redis forgets:\n%s", log)
	}
}
