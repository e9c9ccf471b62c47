//go:build prove

// Package waiters proves what becomes of a duplicate that arrives at another
// sidecar than the first.
package waiters

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

const (
	// width is how many calls are waited for at the same time, copies how many
	// duplicates wait for each at every other sidecar.
	width, copies = 50, 3
	// soon is how long after the settlement a duplicate has its result.
	soon = 100 * time.Millisecond
)

// world is an upstream that holds every call until it is told to answer, one
// Redis and the sidecars around it.
type world struct {
	t        *testing.T
	redis    *redisserver.Server
	sidecars []*harness.Sidecar

	mu         sync.Mutex
	held       map[string]chan struct{} // closed to let a call go
	arrived    map[string]chan struct{} // closed when it is there
	executions atomic.Int64
}

// newWorld starts it all. Without hints the user of the sidecars may not publish,
// so that none learns of a settlement.
func newWorld(t *testing.T, sidecars int, hints bool) *world {
	t.Helper()
	rights := "~* &* +@all"
	if !hints {
		rights += " -publish"
	}
	redis := redisserver.Start(t, redisserver.Options{Users: []string{"app on >secret " + rights}})
	w := &world{t: t, redis: redis, held: map[string]chan struct{}{}, arrived: map[string]chan struct{}{}}
	up := httptest.NewServer(http.HandlerFunc(w.answer))
	t.Cleanup(up.Close)
	config := fmt.Sprintf(`store: {redis: {addrs: [%q], username: app, password: secret}}
backends:
  up: {http: {base_url: %q, allow_private: true}, max_in_flight: 1000}
tools:
  pay: {backend: up, effect: non_idempotent, http: {method: POST, path: "/pay/{id}"}, input_schema: {type: object, properties: {id: {type: string}}, required: [id]}}
`, w.redis.Addr, up.URL)
	for range sidecars {
		w.sidecars = append(w.sidecars, harness.Start(t, config))
	}
	return w
}

// answer executes a call and keeps its answer back.
func (w *world) answer(res http.ResponseWriter, req *http.Request) {
	id := req.URL.Path[len("/pay/"):]
	w.executions.Add(1)
	w.mu.Lock()
	arrived, held := w.arrived[id], w.held[id]
	w.mu.Unlock()
	close(arrived)
	select {
	case <-held:
		res.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(res, `{"paid":%q}`, id) // whoever does not hear it says so
	case <-req.Context().Done():
	}
}

// expect prepares a call that the upstream will hold.
func (w *world) expect(id string) (arrived, held chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	arrived, held = make(chan struct{}), make(chan struct{})
	w.arrived[id], w.held[id] = arrived, held
	return arrived, held
}

func (w *world) call(ctx context.Context, s *harness.Sidecar, id string) (*sidecallv1.ExecuteToolResponse, error) {
	return s.Client.ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{
		ToolUseId: id, ToolName: "pay", ConversationId: "c", ArgumentsJson: fmt.Sprintf(`{"id":%q}`, id),
	})
}

// wait has one call run at the first sidecar while duplicates wait at the others.
// It returns how long after the settlement each of them had their answer, by the
// clock of the store, which is this host's.
func (w *world) wait(ctx context.Context, id string, hold time.Duration) ([]time.Duration, error) {
	arrived, held := w.expect(id)
	var first *sidecallv1.ExecuteToolResponse
	var lead, others errgroup.Group
	lead.Go(func() (err error) {
		first, err = w.call(ctx, w.sidecars[0], id)
		return err
	})
	<-arrived
	var mu sync.Mutex
	var answers []*sidecallv1.ExecuteToolResponse
	var ends []time.Time
	for _, s := range w.sidecars[1:] {
		for range copies {
			others.Go(func() error {
				res, err := w.call(ctx, s, id)
				mu.Lock()
				defer mu.Unlock()
				answers, ends = append(answers, res), append(ends, time.Now())
				return err
			})
		}
	}
	time.Sleep(hold) // how long the tool works: waiters have slowed their polling by then
	close(held)
	if err := errors.Join(lead.Wait(), others.Wait()); err != nil {
		return nil, err
	}
	settled, err := w.settled(ctx, id)
	if err != nil {
		return nil, err
	}
	delays := make([]time.Duration, len(ends))
	for i, end := range ends {
		delays[i] = end.Sub(settled)
		if err := sameAnswer(first, answers[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
	}
	return delays, nil
}

// settled is when a call was settled, in whole milliseconds of the store's clock.
// When its caller had the answer is too late a moment to count from.
func (w *world) settled(ctx context.Context, id string) (time.Time, error) {
	record, err := w.sidecars[0].Client.GetExecution(ctx, &sidecallv1.GetExecutionRequest{ToolUseId: id, ConversationId: "c"})
	if err != nil {
		return time.Time{}, err
	}
	if record.GetFinishedAt() == nil {
		return time.Time{}, fmt.Errorf("%s is not settled: %v", id, record)
	}
	return record.GetFinishedAt().AsTime(), nil
}

// sameAnswer says what is wrong with the answer to a duplicate.
func sameAnswer(first, second *sidecallv1.ExecuteToolResponse) error {
	if first.GetOutcome() != sidecallv1.Outcome_OUTCOME_OK || !second.GetReplayed() {
		return fmt.Errorf("answered %v, and %v to the duplicate", first, second)
	}
	second = proto.CloneOf(second)
	second.Replayed = first.GetReplayed()
	if !proto.Equal(first, second) {
		return fmt.Errorf("answered %v, and another to the duplicate: %v", first, second)
	}
	return nil
}

// load waits for many calls, width of them at a time, and returns all delays.
func (w *world) load(ctx context.Context, prefix string, calls int, hold time.Duration) (delays []time.Duration, wrong int) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(width)
	for i := range calls {
		group.Go(func() error {
			found, err := w.wait(ctx, fmt.Sprintf("%s-%d", prefix, i), hold/2+rand.N(hold/2))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				wrong++
				w.t.Error(err)
			}
			delays = append(delays, found...)
			return nil
		})
	}
	_ = group.Wait() // nothing but nil; what went wrong is counted
	slices.Sort(delays)
	return delays, wrong
}

func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

// meanwhile asks Redis the same thing over and over while load runs.
func (w *world) meanwhile(ctx context.Context, pause time.Duration, ask func(context.Context, *redis.Client) error, load func()) {
	w.t.Helper()
	ctx, stop := context.WithCancel(ctx)
	var asking errgroup.Group
	asking.Go(func() error {
		client := redis.NewClient(&redis.Options{Addr: w.redis.Addr})
		defer func() { _ = client.Close() }() // nothing is left to lose
		for {
			if err := ask(ctx, client); err != nil && ctx.Err() == nil {
				return err
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil
			}
		}
	})
	load()
	stop()
	if err := asking.Wait(); err != nil {
		w.t.Error(err)
	}
}

// A duplicate at another sidecar gets the result of the first as soon as it is
// there, and costs no connection.
func TestDuplicatesAtOtherSidecars(t *testing.T) {
	w := newWorld(t, 3, true)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	calls := proof.Runs(100, 3000)
	var delays []time.Duration
	wrong, connections := 0, 0
	count := func(ctx context.Context, client *redis.Client) error {
		all, err := client.ClientList(ctx).Result()
		connections = max(connections, strings.Count(all, "name=sidecall"))
		return err
	}
	w.meanwhile(ctx, 20*time.Millisecond, count, func() {
		delays, wrong = w.load(ctx, "wait", calls, 1500*time.Millisecond)
	})
	p50, p99 := percentile(delays, 0.5), percentile(delays, 0.99)
	executed := int(w.executions.Load())
	violations := wrong + abs(executed-calls)
	// A sidecar has a few connections for its requests and one for the hints,
	// however many wait.
	if perSidecar := float64(connections) / float64(len(w.sidecars)); perSidecar < 1 || perSidecar > 16 {
		t.Errorf("%.1f connections per sidecar while %d duplicates waited", perSidecar, width*copies)
		violations++
	}
	// Polling alone would take 400 ms on the average by now.
	if p50 > soon || proof.Full() && p99 > soon {
		t.Errorf("half of the duplicates waited longer than %v after the settlement, 99 %% less than %v", p50, p99)
		violations++
	}
	proof.Report(t, proof.Row{
		Fault: "duplicate arrives at another sidecar", Store: "redis", Runs: len(delays), Violations: violations,
		Figure: fmt.Sprintf("%d calls, %d executions; result after settlement p50 %.1f ms, p99 %.1f ms; at most %d connections of 3 sidecars, %d waiting",
			calls, executed, ms(p50), ms(p99), connections, (len(w.sidecars)-1)*width*copies),
	})
}

// No hint arrives: a duplicate asks again by itself, once a second in the end, and
// the deadline of the caller bounds the wait.
func TestDuplicatesWithoutHints(t *testing.T) {
	w := newWorld(t, 2, false)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	calls := proof.Runs(50, 500)
	delays, wrong := w.load(ctx, "mute", calls, 800*time.Millisecond)
	violations := wrong + abs(int(w.executions.Load())-calls)
	p50, p99 := percentile(delays, 0.5), percentile(delays, 0.99)
	if p99 > 2*time.Second {
		t.Errorf("99 %% of the duplicates had the result %v after the settlement, or sooner", p99)
		violations++
	}
	violations += w.deadline(ctx)
	proof.Report(t, proof.Row{
		Fault: "duplicate elsewhere, no hint arrives", Store: "redis", Runs: len(delays), Violations: violations,
		Figure: fmt.Sprintf("%d calls; result after settlement p50 %.0f ms, p99 %.0f ms; IN_PROGRESS at the deadline", calls, ms(p50), ms(p99)),
	})
}

// The subscription is lost again and again: it is made anew, and what was missed
// is asked for.
func TestDuplicatesWhoseSubscriptionIsCut(t *testing.T) {
	w := newWorld(t, 2, true)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var delays []time.Duration
	wrong, cut := 0, 0
	kill := func(ctx context.Context, client *redis.Client) error {
		n, err := client.ClientKillByFilter(ctx, "TYPE", "pubsub").Result()
		cut += int(n)
		return err
	}
	calls := proof.Runs(50, 500)
	w.meanwhile(ctx, 10*time.Millisecond, kill, func() {
		delays, wrong = w.load(ctx, "cut", calls, 800*time.Millisecond)
	})
	violations := wrong + abs(int(w.executions.Load())-calls)
	if cut == 0 {
		t.Error("no subscription was ever cut")
		violations++
	}
	proof.Report(t, proof.Row{
		Fault: "duplicate elsewhere, subscription cut all the time", Store: "redis", Runs: len(delays), Violations: violations,
		Figure: fmt.Sprintf("%d cuts; result after settlement p50 %.0f ms, p99 %.0f ms",
			cut, ms(percentile(delays, 0.5)), ms(percentile(delays, 0.99))),
	})
}

// deadline has a duplicate wait for a call that does not end in time.
func (w *world) deadline(ctx context.Context) (violations int) {
	w.t.Helper()
	arrived, held := w.expect("endless")
	var lead errgroup.Group
	lead.Go(func() error {
		_, err := w.call(ctx, w.sidecars[0], "endless")
		return err
	})
	<-arrived
	res, err := w.sidecars[1].Client.ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{
		ToolUseId: "endless", ToolName: "pay", ConversationId: "c", ArgumentsJson: `{"id":"endless"}`,
		Timeout: durationpb.New(3 * time.Second),
	})
	close(held)
	if err != nil || res.GetError().GetCode() != "IN_PROGRESS" {
		w.t.Errorf("a duplicate at its deadline got %v, %v; want IN_PROGRESS", res, err)
		violations++
	}
	if err := lead.Wait(); err != nil {
		w.t.Errorf("the call that was waited for: %v", err)
		violations++
	}
	return violations
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func abs(n int) int { return max(n, -n) }
