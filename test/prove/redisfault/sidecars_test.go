//go:build prove

package redisfault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// Two whole sidecars share a Redis whose replies are lost, now of the claim, now
// of the settlement; the upstream keeps a ledger on disk.
func TestStoreRepliesAreLostToSidecars(t *testing.T) {
	s := newSidecars(t)
	claims := newLosses(isClaim, 1.0/4, faultproxy.Close)
	settlements := newLosses(isSettlement, 1.0/4, faultproxy.Close)
	s.proxy.Hook(func(c *faultproxy.Conn) faultproxy.Hook { return firstOf(claims.watch(c), settlements.watch(c)) })
	s.proxy.Cut() // those that the sidecars have already are not watched
	enough := proof.Runs(100, 1_500)
	s.run(func() bool { return claims.calls() >= enough && settlements.calls() >= enough })
	proof.Report(t, proof.Row{
		Fault: "reply to claim or settle lost, two whole sidecars", Store: "redis",
		Runs: claims.calls() + settlements.calls(), Violations: s.violations(),
		Figure: fmt.Sprintf("claims of %d calls, settlements of %d; %s", claims.calls(), settlements.calls(), s),
	})
}

// firstOf asks two hooks, and does what the first says that does anything.
func firstOf(one, other faultproxy.Hook) faultproxy.Hook {
	return func(way faultproxy.Direction, chunk []byte) faultproxy.Action {
		first, second := one(way, chunk), other(way, chunk)
		if first != faultproxy.Pass {
			return first
		}
		return second
	}
}

// The network between the sidecars and their store is slow, tears packets and
// loses connections, at any byte of either direction, all the time; and now and
// then the store forgets the scripts.
func TestLossyStoreLink(t *testing.T) {
	seed := rand.Uint64()
	s := newSidecars(t)
	s.proxy.Delay(2*time.Millisecond, time.Millisecond)
	s.proxy.Split(40)
	link := &lossyLink{random: rand.New(rand.NewPCG(seed, 0)), share: 0.05, silent: 0.001}
	s.proxy.Hook(link.watch)
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() { // ends when stop is closed
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for answered := int64(0); ; {
			select {
			case <-tick.C:
				// Five times as much is answered meanwhile on a machine that has time.
				// On one that has none, links that end before anything has passed
				// them would only show that a lease runs out.
				if s.answers.Load() < answered+8 {
					continue
				}
				answered = s.answers.Load()
				s.proxy.Cut()
				if _, err := s.redis.Try("script", "flush"); err != nil {
					t.Error(err)
				}
			case <-stop:
				return
			}
		}
	})
	enough := int64(proof.Runs(1_000, 15_000))
	s.run(func() bool { return s.ids.Load() >= enough })
	close(stop)
	cutter.Wait()
	counts := s.proxy.Counts()
	broken := counts.Cut + counts.Closed + counts.Reset + counts.Muted
	if counts.Cut == 0 || counts.Closed == 0 || counts.Reset == 0 || counts.Torn == 0 || counts.Delayed == 0 {
		t.Errorf("a fault never came about: %+v", counts)
	}
	proof.Report(t, proof.Row{
		Fault: "slow and lossy store link, two whole sidecars", Store: "redis",
		Runs: int(s.ids.Load()), Violations: s.violations(),
		Figure: fmt.Sprintf("%d connections broken, %d packets torn, seed %d; %s", broken, counts.Torn, seed, s),
	})
}

// lossyLink breaks connections at random bytes, in both directions.
type lossyLink struct {
	share, silent float64 // of the chunks

	mu     sync.Mutex
	random *rand.Rand
}

func (l *lossyLink) watch(*faultproxy.Conn) faultproxy.Hook {
	return func(_ faultproxy.Direction, chunk []byte) faultproxy.Action {
		l.mu.Lock()
		defer l.mu.Unlock()
		keep, fate := l.random.IntN(len(chunk)+1), l.random.Float64()
		switch {
		case fate < l.silent:
			return faultproxy.Mute(keep)
		case fate < l.share/2:
			return faultproxy.Close(keep)
		case fate < l.share:
			return faultproxy.Reset(keep)
		default:
			return faultproxy.Pass
		}
	}
}

// sidecars are two of them on one Redis behind one proxy, in front of an
// upstream whose ledger is on disk.
type sidecars struct {
	tb       testing.TB
	redis    *redisserver.Server
	proxy    *faultproxy.Proxy
	upstream *upstream.Server
	all      []*harness.Sidecar

	ids, answers, replays, again, unrecorded atomic.Int64

	mu       sync.Mutex
	violated int
}

// newSidecars starts them on a Redis of their own.
func newSidecars(t *testing.T) *sidecars {
	t.Helper()
	redis := redisserver.Start(t, redisserver.Options{})
	proxy := faultproxy.Start(t, redis.Addr)
	s := startSidecars(t, fmt.Sprintf("addrs: [%q]", proxy.Addr()), "")
	s.redis, s.proxy = redis, proxy
	return s
}

// startSidecars starts them with such a store, and with further lines of config.
func startSidecars(t *testing.T, redis, further string) *sidecars {
	t.Helper()
	server := startUpstream(t, openLedger(t))
	s := &sidecars{tb: t, upstream: server}
	config := fmt.Sprintf(`
store: {redis: {%s}}
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools: {act: {backend: up, http: {method: POST, path: /act}}}
%s
`, redis, server.URL, further)
	for range 2 {
		s.all = append(s.all, harness.Start(t, config))
	}
	return s
}

func startUpstream(t *testing.T, ledger *upstream.Ledger) *upstream.Server {
	t.Helper()
	server, err := upstream.Start(upstream.New(ledger), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// run calls ids, each several times at once through both sidecars, until enough
// is true; then it compares with the ledger.
func (s *sidecars) run(enough func() bool) {
	var workers sync.WaitGroup
	for range 24 {
		workers.Go(func() {
			for !enough() && s.violations() < 100 {
				s.callAtOnce(fmt.Sprint("id", s.ids.Add(1)))
			}
		})
	}
	workers.Wait()
	counts := s.upstream.Ledger.Counts()
	if len(counts) != int(s.ids.Load()) {
		s.violation("%d of %d ids ran", len(counts), s.ids.Load())
	}
	for id, n := range counts {
		if n != 1 {
			s.violation("%s was executed %d times", id, n)
		}
	}
}

func (s *sidecars) callAtOnce(id string) {
	var mu sync.Mutex
	contents := map[string]int{}
	var callers sync.WaitGroup
	for i := range duplicates {
		callers.Go(func() {
			content, ok := s.call(s.all[i%len(s.all)], id)
			mu.Lock()
			defer mu.Unlock()
			if ok {
				contents[content]++
			}
		})
	}
	callers.Wait()
	if len(contents) > 1 {
		s.violation("%s was answered differently: %v", id, contents)
	}
}

// call asks until there is an answer other than that the store is away.
func (s *sidecars) call(sidecar *harness.Sidecar, id string) (content string, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for {
		res, err := sidecar.Client.ExecuteTool(ctx, requestOf(id))
		switch {
		case err != nil:
			s.violation("%s: %v", id, err)
			return "", false
		case res.GetError().GetCode() == "STORE_UNAVAILABLE":
			s.again.Add(1)
			continue
		case res.GetIsError():
			s.violation("%s: %s", id, res.GetContent())
			return "", false
		case res.GetReplayed():
			s.replays.Add(1)
		}
		if !res.GetRecorded() {
			s.unrecorded.Add(1)
		}
		s.answers.Add(1)
		return res.GetContent(), true
	}
}

// requestOf is a call whose execution the ledger counts under id.
func requestOf(id string) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{
		ToolUseId: id, ToolName: "act", ConversationId: "c", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id),
	}
}

func (s *sidecars) violation(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.violated++; s.violated < 10 {
		s.tb.Errorf(format, args...)
	}
}

func (s *sidecars) violations() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.violated
}

// String is what there was to measure.
func (s *sidecars) String() string {
	return fmt.Sprintf("%d ids × %d callers, %d executions on disk, %d replays alike, %d told to ask again, %d unrecorded",
		s.ids.Load(), duplicates, s.upstream.Ledger.Total(), s.replays.Load(), s.again.Load(), s.unrecorded.Load())
}
