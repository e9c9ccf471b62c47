//go:build prove

package histories

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// callLease is short, so that a stopped process outlasts it.
const callLease = 60 * time.Millisecond

const (
	executes callKind = "executes" // told before it does
	holds    callKind = "holds"    // it was told that the claim is its own
	lost     callKind = "lost its claim"
	replays  callKind = "replay"
	unknown  callKind = "unknown"
	inFlight callKind = "in flight"
	settled  callKind = "settled"
	late     callKind = "superseded"
	failed   callKind = "no answer"
	took     callKind = "took its instance over" // of no history
)

// bounded is a store that remembers how long each lease can be at most.
type bounded struct {
	*redisstore.Store
	ends sync.Map // owner → CLOCK_MONOTONIC
}

func (b *bounded) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	a, err := b.Store.Admit(ctx, req)
	if err == nil && a.Verdict == dedupe.Won {
		b.ends.Store(req.Owner, monotonic()+int64(req.Lease))
	}
	return a, err
}

func (b *bounded) Renew(ctx context.Context, renewal dedupe.Renewal) (dedupe.Record, bool, error) {
	record, restored, err := b.Store.Renew(ctx, renewal)
	if owner := renewal.Claim.Record.Owner; err == nil && record.State == dedupe.Claimed && record.Owner == owner {
		b.ends.Store(owner, monotonic()+int64(renewal.Lease))
	}
	return record, restored, err
}

// makeCalls is a worker's life when it carries out calls.
func (w *worker) makeCalls() error {
	store := &bounded{Store: w.store.(*redisstore.Store)}
	options := dedupe.Options{Lease: callLease}
	if w.job.Instance != "" {
		options = incarnationOf(w.job.Instance)
	}
	d := dedupe.New(store, options)
	if err := w.succeed(d); err != nil {
		return err
	}
	orders := gob.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var o Order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			w.orders.Wait()
			return d.Close(context.Background())
		} else if err != nil {
			return err
		}
		w.orders.Go(func() {
			var all sync.WaitGroup
			for _, client := range o.Clients {
				c := caller{order: o, client: client, instance: w.job.Instance, dedupe: d, store: store, teller: w.teller}
				all.Go(c.call)
			}
			all.Wait()
			w.teller.tell(message{Done: &o})
		})
	}
}

// caller makes one call, as a server would.
type caller struct {
	order    Order
	client   int
	instance string
	dedupe   *dedupe.Dedupe
	store    *bounded
	teller   *teller
	begun    int64
	claim    *dedupe.Claim
	record   dedupe.Record
}

// callEffect: two calls of three must not be repeated.
func callEffect(history int) tool.Effect {
	if history%3 == 2 {
		return tool.Idempotent
	}
	return tool.NonIdempotent
}

func (c *caller) tell(kind callKind, result string) {
	e := callEvent{
		History: c.order.History, Client: c.client, Instance: c.instance, PID: os.Getpid(), Kind: kind, Result: result,
		Begun: c.begun, At: monotonic(), Epoch: c.record.Epoch,
	}
	if end, known := c.store.ends.Load(c.record.Owner); known {
		e.Until = end.(int64)
	}
	c.teller.tell(message{Call: &e})
}

func (c *caller) call() {
	time.Sleep(rand.N(callLease)) // random moments are the point
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond+rand.N(6*callLease))
	defer cancel()
	c.begun = monotonic()
	plan := Plan{Seed: c.order.Seed, History: c.order.History}
	admission, claim, err := storetest.Admit(ctx, c.dedupe, dedupe.Request{
		Key: plan.Key(0), Tool: toolOf(0), Fingerprint: fingerprintOf(0), Effect: callEffect(c.order.History),
	})
	c.claim, c.record = claim, admission.Record
	switch {
	case err != nil:
		c.tell(failed, "")
	case admission.Verdict == dedupe.Won:
		c.run()
	case admission.Verdict == dedupe.Replay:
		c.tell(replays, string(admission.Record.Result))
	case admission.Verdict == dedupe.OutcomeUnknown:
		c.tell(unknown, "")
	default:
		c.tell(inFlight, "")
	}
}

// run executes the call: now and then after attempts that came to nothing.
func (c *caller) run() {
	for range rand.IntN(3) {
		if !c.held() {
			return
		}
		time.Sleep(rand.N(callLease / 2)) // the pause between two attempts
	}
	if !c.held() {
		return
	}
	result := fmt.Sprintf("client %d of %d, %d", c.client, os.Getpid(), monotonic())
	c.tell(executes, result)
	time.Sleep(rand.N(2 * callLease)) // the tool works
	as := dedupe.Done
	if rand.IntN(6) == 0 {
		as = dedupe.Unknown // a timeout
	}
	c.settle(as, result)
}

// held asks whether the claim is still this process's, and gives it up when not.
func (c *caller) held() bool {
	c.begun = monotonic()
	if c.claim.Held() {
		c.tell(holds, "")
		return true
	}
	c.tell(lost, "")
	c.settle(dedupe.NotRun, "")
	return false
}

func (c *caller) settle(as dedupe.State, result string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	verdict, err := c.claim.Settle(ctx, dedupe.Settlement{State: as, Attempts: 1, Result: []byte(result)})
	switch {
	case err != nil:
		c.tell(failed, "")
	case verdict == dedupe.Settled && as == dedupe.Done:
		c.tell(settled, result)
	case verdict == dedupe.Superseded:
		c.tell(late, "")
	}
}

// TestCalls: processes that make the same calls at the same time, with leases
// that are shorter than they are stopped, and killed in between.
func TestCalls(t *testing.T) {
	const lanes = 24
	c := &calls{
		T: t, addr: redisserver.Start(t, redisserver.Options{}).Addr, seed: rand.Uint64(), want: wanted(t, proof.Runs(1_000, 10_000)),
		events: map[int][]callEvent{}, shown: map[callKind]int{},
	}
	for range 3 {
		p, _ := start(t, job{Redis: c.addr, Calls: true}, c.heard)
		c.processes = append(c.processes, p)
	}
	finished, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); c.harass(finished) }()
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for history := int(c.last.Add(1)); history <= c.want && c.violations.Load() < enough; history = int(c.last.Add(1)) {
				if !c.record(history) {
					c.Error("a worker is gone")
					return
				}
			}
		})
	}
	wg.Wait()
	close(finished)
	<-ended
	for _, p := range c.processes {
		p.end(t)
	}
	c.report()
}

// calls are the histories of TestCalls.
type calls struct {
	*testing.T
	addr       string
	seed       uint64
	want       int
	last       atomic.Int64
	executions atomic.Int64
	violations atomic.Int64

	mu           sync.Mutex
	processes    []*process
	events       map[int][]callEvent
	shown        map[callKind]int
	stops, kills int
}

func (c *calls) heard(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[m.Call.History] = append(c.events[m.Call.History], *m.Call)
	c.shown[m.Call.Kind]++
}

// harass stops processes, and kills some.
func (c *calls) harass(finished <-chan struct{}) {
	for {
		select {
		case <-finished:
			return
		case <-time.After(rand.N(60 * time.Millisecond)):
		}
		i := rand.IntN(len(c.processes))
		if rand.IntN(8) == 0 {
			c.processes[i].kill(c.T)
			p, _ := start(c.T, job{Redis: c.addr, Calls: true}, c.heard)
			c.mu.Lock()
			c.processes[i] = p
			c.kills++
			c.mu.Unlock()
			continue
		}
		c.processes[i].signal(c.T, syscall.SIGSTOP)
		time.Sleep(rand.N(3 * callLease)) // how long it is stopped
		c.processes[i].signal(c.T, syscall.SIGCONT)
		c.stops++
	}
}

// record has all processes make one call, twice each; false when one of them
// has ended by itself. One that was killed meanwhile has made what it has made.
func (c *calls) record(history int) bool {
	c.mu.Lock()
	processes := slices.Clone(c.processes)
	c.mu.Unlock()
	order := Order{Seed: c.seed, History: history}
	if !together(processes, [][]int{{0, 1}, {2, 3}, {4, 5}}, order) && slices.ContainsFunc(processes, (*process).died) {
		return false
	}
	c.mu.Lock()
	events := c.events[history]
	delete(c.events, history)
	c.mu.Unlock()
	if err := judge(events, callEffect(history)); err != nil && c.violations.Add(1) <= enough {
		c.Errorf("history %d, %v: %v\n%s", history, callEffect(history), err, tale(events))
	}
	for _, e := range events {
		if e.Kind == executes {
			c.executions.Add(1)
		}
	}
	return true
}

// judge returns which promise the events break.
func judge(events []callEvent, effect tool.Effect) error {
	results, byEpoch := map[string]bool{}, map[int64]int{}
	replayed, decided := "", int64(Never)
	for _, e := range events {
		switch {
		case e.Kind == holds && e.Begun >= e.Until:
			return fmt.Errorf("client %d holds its claim after its lease", e.Client)
		case e.Kind == executes:
			results[e.Result] = true
			byEpoch[e.Epoch]++
		case (e.Kind == replays || e.Kind == settled) && replayed != "" && replayed != e.Result:
			return errors.New("there are two results")
		case e.Kind == replays || e.Kind == settled:
			replayed, decided = e.Result, min(decided, e.At)
		}
	}
	for epoch, n := range byEpoch {
		if n > 1 {
			return fmt.Errorf("epoch %d was executed %d times", epoch, n)
		}
	}
	if effect == tool.NonIdempotent && len(results) > 1 {
		return fmt.Errorf("it was executed %d times", len(results))
	}
	if replayed != "" && !results[replayed] {
		return errors.New("a result is replayed that nobody had")
	}
	for _, e := range events {
		if (e.Kind == unknown || e.Kind == executes) && e.Begun > decided {
			return fmt.Errorf("client %d: %s, after there was a result", e.Client, e.Kind)
		}
	}
	return nil
}

func tale(events []callEvent) (text string) {
	slices.SortFunc(events, func(a, b callEvent) int { return int(a.At - b.At) })
	for _, e := range events {
		text += fmt.Sprintf("%s %s client %d %s epoch %d lease until %s %q\n",
			brief(e.Begun), brief(e.At), e.Client, e.Kind, e.Epoch, brief(e.Until), e.Result)
	}
	return text
}

func (c *calls) report() {
	c.Helper()
	c.Logf("they show %v", c.shown)
	for _, kind := range []callKind{executes, holds, lost, replays, unknown, inFlight, settled, late} {
		if c.shown[kind] == 0 && c.want >= 1000 && c.violations.Load() == 0 {
			c.Errorf("no history shows %q", kind)
		}
	}
	proof.Report(c.T, proof.Row{
		Fault: "calls of several processes, stopped past their lease and killed", Store: "redis",
		Runs: c.want, Violations: int(c.violations.Load()),
		Figure: fmt.Sprintf("%d executions, %d replays, %d unknown; %d stops, %d kills", c.executions.Load(),
			c.shown[replays], c.shown[unknown], c.stops, c.kills),
	})
}
