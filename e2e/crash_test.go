//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/e2e/harness"
	"github.com/sidecall/sidecall/e2e/upstream"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// crashCallers is how many calls are in flight when the sidecar is killed.
const crashCallers = 8

// The sidecar is killed again and again in the middle of its work, on either
// store. Each time every call is sent again: none happens twice, what was
// answered is answered the same, and only what was in flight may be unknown.
func TestKilledInMidLoad(t *testing.T) {
	t.Parallel()
	runs := number(t, "SIDECALL_CRASH_RUNS", 20)
	stores := map[string]func(t *testing.T) string{
		// Its claims are decided at the next start.
		"embedded": func(*testing.T) string { return "store: {embedded: {path: crash.db}}\n" },
		// There, another sidecar might hold a claim: it is decided by its lease,
		// which is short here, so that the test need not wait.
		"redis": func(t *testing.T) string {
			return fmt.Sprintf("lease: 1s\nstore: {redis: {addrs: [%q]}}\n", harness.Redis(t))
		},
	}
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCrash(t, store(t))
			for run := range runs {
				c.run(run)
			}
			c.finish(runs)
		})
	}
}

// crash is one sidecar that is killed, and what it is measured by.
type crash struct {
	*harness.Sidecar
	t      *testing.T
	ledger *upstream.Ledger
	path   string // of the ledger

	// What was found in all runs.
	calls, answered, unknown, lateReplays, ranAfterwards int
	done                                                 map[string]bool // ids that are known to have happened
}

// startCrash starts a sidecar in front of an upstream that outlives it and
// writes every execution to a synced ledger.
func startCrash(t *testing.T, store string) *crash {
	t.Helper()
	c := &crash{t: t, path: filepath.Join(t.TempDir(), "ledger"), done: map[string]bool{}}
	ledger, err := upstream.OpenLedger(c.path)
	if err != nil {
		t.Fatal(err)
	}
	c.ledger = ledger
	server := httptest.NewServer(unsteady(upstream.New(ledger)))
	t.Cleanup(server.Close)
	c.Sidecar = harness.Start(t, store+oneTool(server.URL))
	return c
}

// unsteady takes a little while before the work is done and a little while
// after it, so that a kill falls into each part of a call.
func unsteady(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(rand.N(4 * time.Millisecond))
		next.ServeHTTP(w, r)
		<-time.After(rand.N(4 * time.Millisecond)) // the answer is sent on return
	})
}

// run is one life of the sidecar, its death and what is left.
func (c *crash) run(n int) {
	c.t.Helper()
	answers := c.load(n)
	c.Run()
	c.sendAgain(answers)
	if c.t.Failed() {
		c.t.Fatalf("in run %d\n%s", n, c.Log())
	}
}

// load sends calls from several callers until the sidecar is killed at a random
// moment. The result holds every id that was sent, nil for no answer.
func (c *crash) load(run int) map[string]*sidecallv1.ExecuteToolResponse {
	c.t.Helper()
	var mu sync.Mutex
	answers := map[string]*sidecallv1.ExecuteToolResponse{}
	var callers errgroup.Group
	for caller := range crashCallers {
		callers.Go(func() error {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", run, caller, i)
				ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
				res, err := c.Client.ExecuteTool(ctx, callOf(id))
				cancel()
				mu.Lock()
				answers[id] = res
				mu.Unlock()
				if err != nil {
					return unavailableOnly(err)
				}
			}
		})
	}
	<-time.After(time.Duration(5+rand.N(150)) * time.Millisecond) // the random moment
	c.Kill()
	if err := callers.Wait(); err != nil {
		c.t.Fatal(err)
	}
	return answers
}

// unavailableOnly drops the error that every caller of a process that died gets.
func unavailableOnly(err error) error {
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}

// sendAgain sends every id of a run again, some at the same time.
func (c *crash) sendAgain(answers map[string]*sidecallv1.ExecuteToolResponse) {
	c.t.Helper()
	var mu sync.Mutex // guards c
	var group errgroup.Group
	group.SetLimit(2 * crashCallers)
	for id, before := range answers {
		group.Go(func() error {
			after, err := c.send(id)
			if err != nil {
				return err
			}
			if before == nil {
				return c.wasInFlight(&mu, id, after)
			}
			mu.Lock()
			defer mu.Unlock()
			c.calls++
			c.answered++
			c.done[id] = true
			return c.wasAnswered(id, before, after)
		})
	}
	if err := group.Wait(); err != nil {
		c.t.Error(err)
	}
}

func (c *crash) send(id string) (*sidecallv1.ExecuteToolResponse, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	res, err := c.Client.ExecuteTool(ctx, callOf(id))
	if err != nil {
		return nil, fmt.Errorf("%s, sent again: %w", id, err)
	}
	return res, nil
}

// wasAnswered judges a call that had its answer when the sidecar died.
func (c *crash) wasAnswered(id string, before, after *sidecallv1.ExecuteToolResponse) error {
	if before.GetIsError() || !before.GetRecorded() || before.GetReplayed() {
		return fmt.Errorf("%s: with nothing amiss the answer is %v", id, before)
	}
	if !after.GetReplayed() || !bytes.Equal(withoutReplayed(c.t, before), withoutReplayed(c.t, after)) {
		return fmt.Errorf("%s: the answer was %v, and after the restart it is %v", id, before, after)
	}
	return nil
}

// wasInFlight judges a call without an answer: it has happened, or happens now,
// or nobody knows; and that does not change any more.
func (c *crash) wasInFlight(mu *sync.Mutex, id string, after *sidecallv1.ExecuteToolResponse) error {
	again, err := c.send(id)
	if err != nil {
		return err
	}
	if !again.GetReplayed() || again.GetContent() != after.GetContent() {
		return fmt.Errorf("%s: sent again, and then again: %v, %v", id, after, again)
	}
	mu.Lock()
	defer mu.Unlock()
	c.calls++
	switch {
	case after.GetError().GetCode() == "OUTCOME_UNKNOWN":
		c.unknown++
		return nil
	case after.GetIsError():
		return fmt.Errorf("%s: in flight at the kill, and now %v", id, after)
	case after.GetReplayed():
		c.lateReplays++
	default:
		c.ranAfterwards++
	}
	c.done[id] = true
	return nil
}

// finish compares everything that was said with what really happened.
func (c *crash) finish(runs int) {
	c.t.Helper()
	if err := c.ledger.Close(); err != nil {
		c.t.Fatal(err)
	}
	ledger, err := upstream.OpenLedger(c.path) // what is on disk
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := ledger.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	executions := ledger.Counts()
	unknownRan := 0
	for id, n := range executions {
		if n != 1 {
			c.t.Errorf("%s happened %d times", id, n)
		}
		if !c.done[id] {
			unknownRan++
		}
	}
	for id := range c.done {
		if executions[id] == 0 {
			c.t.Errorf("%s is said to have happened and has not", id)
		}
	}
	if unknownRan > c.unknown {
		c.t.Errorf("%d calls happened that are not said to have, of which only %d are unknown", unknownRan, c.unknown)
	}
	if c.answered == 0 || c.unknown == 0 {
		c.t.Errorf("%d calls answered and %d unknown: the kills did not fall into the load", c.answered, c.unknown)
	}
	c.t.Logf("%d kills, %d calls: %d answered before the kill and replayed byte for byte; of %d in flight %d unknown (%d of them had happened), %d done, %d run afterwards; none twice",
		runs, c.calls, c.answered, c.calls-c.answered, c.unknown, unknownRan, c.lateReplays, c.ranAfterwards)
}
