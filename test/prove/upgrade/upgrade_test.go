//go:build prove

package upgrade

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

const (
	sidecars = 3
	workers  = 12
	// copies is how often each id is sent at the same time, to whichever sidecars.
	copies = 3
	// patience is how long an id is sent again that gets no result.
	patience = 2 * time.Minute
)

const config = `
store: {redis: {addrs: [%q]}}
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools:
  act: {backend: up, http: {method: POST, path: /act}}
`

// Sidecars of this version are replaced by the later one, one after the other and
// under load, back and forth. Each id is sent to several of them at once, and sent
// again until it has its result.
func TestARollingUpgrade(t *testing.T) {
	later := harness.LaterBinary(t)
	up, err := upstream.Start(upstream.New(upstream.NewLedger()), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	redis := redisserver.Start(t, redisserver.Options{})
	l := &load{T: t}
	for range sidecars {
		l.sidecars = append(l.sidecars, harness.Start(t, fmt.Sprintf(config, redis.Addr, up.URL)))
	}
	stop := l.start()
	rounds, replaced := proof.Runs(2, 20), 0
	for round := range rounds {
		for _, s := range l.sidecars {
			l.await(l.calls.Load() + 20*workers)
			s.Stop()
			if s.Binary = later; round%2 == 1 && round+1 < rounds {
				s.Binary = "" // back again: the last round ends with the later version
			}
			s.Run()
			replaced++
		}
	}
	l.await(l.calls.Load() + 20*workers)
	stop()

	calls := int(l.calls.Load())
	for i := range calls {
		id := fmt.Sprint("id", i)
		if n := up.Ledger.Executions(id); n != 1 {
			l.violate("%s was executed %d times", id, n)
		}
	}
	if n := l.refused.Load(); n == 0 {
		t.Error("no sidecar ever met a record of the other layout: this fault shows nothing")
	}
	proof.Report(t, proof.Row{
		Fault: "rolling upgrade under load, both versions on one Redis", Store: "redis", Runs: calls, Violations: int(l.violations.Load()),
		Figure: fmt.Sprintf("%d ids sent %d times each, %d sidecars replaced; every id ran once and has one result; %d answers of STORE_UNAVAILABLE meanwhile",
			calls, copies, replaced, l.refused.Load()),
	})
}

// load sends ids until it is stopped.
type load struct {
	*testing.T
	sidecars []*harness.Sidecar

	next, calls, refused, violations atomic.Int64
	// inVain is how often a copy was refused since the last call ended.
	inVain atomic.Int64
}

// allRefused is how often copies are refused in a row when all of those under way are
// of records that only the version reads of which no sidecar is left: each a hundred
// times.
const allRefused = 100 * workers * copies

func (l *load) violate(format string, args ...any) {
	l.Helper()
	l.violations.Add(1)
	l.Errorf(format, args...)
}

// start begins, and returns what ends it, when all ids have their results.
func (l *load) start() (stop func()) {
	var all sync.WaitGroup
	quit := make(chan struct{})
	for range workers {
		all.Go(func() { // ends with quit
			for {
				select {
				case <-quit:
					return
				default:
					l.one(fmt.Sprint("id", l.next.Add(1)-1))
				}
			}
		})
	}
	return func() { close(quit); all.Wait() }
}

// await waits for a number of calls that have their results. When none can have one
// before the next sidecar is replaced, that is what is waited for.
func (l *load) await(calls int64) {
	l.Helper()
	l.inVain.Store(0)
	harness.WaitFor(l, "calls to end", func() bool {
		return l.calls.Load() >= calls || l.inVain.Load() >= allRefused || l.Failed()
	})
}

// one sends one id, several times at once, and compares the results.
func (l *load) one(id string) {
	var group sync.WaitGroup
	results := make([]*sidecallv1.ExecuteToolResponse, copies)
	for i := range results {
		group.Go(func() { results[i] = l.result(id) })
	}
	group.Wait()
	fresh := 0
	for _, res := range results {
		switch {
		case res == nil:
			return // said already
		case res.GetIsError() || res.GetContent() != results[0].GetContent():
			l.violate("%s: one copy got %v, another %v", id, results[0], res)
		case !res.GetReplayed():
			fresh++
		}
	}
	if fresh > 1 {
		l.violate("%s: %d of its copies are said to have run", id, fresh)
	}
	l.calls.Add(1)
	l.inVain.Store(0)
}

// result sends an id until it has a result: what does not say more than that
// nothing can be said yet is sent again, to any sidecar.
func (l *load) result(id string) *sidecallv1.ExecuteToolResponse {
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	var last any
	for ctx.Err() == nil {
		res, err := l.sidecars[rand.IntN(sidecars)].Client.ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{
			ConversationId: "c", ToolUseId: id, ToolName: "act", ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id),
		})
		switch code := res.GetError().GetCode(); {
		case err != nil && status.Code(err) != codes.Unavailable:
			l.violate("%s: %v", id, err)
			return nil
		case err != nil:
			last = err
		case code == "STORE_UNAVAILABLE":
			l.refused.Add(1)
			l.inVain.Add(1)
			last = res
		case code == "IN_PROGRESS":
			last = res
		default:
			return res
		}
		select {
		case <-time.After(10 * time.Millisecond): // before it is sent again
		case <-ctx.Done():
		}
	}
	l.violate("%s has no result: %v", id, last)
	return nil
}
