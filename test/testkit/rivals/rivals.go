// Package rivals is traffic for stores, and the oracle that judges it: every call
// is wanted by several owners at a time, one of them may win it, and its result
// is never forgotten.
package rivals

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// Conversations is how many conversations a load has, named 0, 1, 2, ...
const Conversations = 97

const (
	// wanted is how many owners want each call at the same time.
	wanted = 2
	// keptComplaints bounds the violations that are kept as sentences.
	keptComplaints = 20
	// oneTry bounds one request to a store where nothing else is set.
	oneTry = 5 * time.Second
	// betweenTries is the pause of a caller before it asks again.
	betweenTries = 20 * time.Millisecond
	// lease never runs out while a load lasts, so that a claim is won once.
	lease = time.Hour
)

// Load is traffic of calls that must not repeat. Each is wanted by two owners at
// a time, over different stores if there are several. Whoever is told nothing
// asks again, as the same owner. The one that wins settles the call, and others
// then ask for its result.
type Load struct {
	Stores  []dedupe.Store
	Workers int
	// Patience is how long a caller goes on asking. Not to be answered then is a
	// violation: in the end everything succeeds.
	Patience time.Duration
	// OneTry bounds one request to a store. Default: 5 s. Who counts Repeats sets
	// more than a machine may stand still.
	OneTry time.Duration
	// Name keeps the calls of several loads apart.
	Name string
}

// Verdict is what a load has come to.
type Verdict struct {
	// Calls is how many were settled, and found so again at the end.
	Calls int
	// Repeats is how many requests a store failed.
	Repeats int
	// Violations is how many promises were broken; Complaints says which, of the
	// first.
	Violations int
	Complaints []string
	// Slowest is the longest that a call took from its first request to its
	// replay.
	Slowest time.Duration
}

// Traffic is a load under way.
type Traffic struct {
	load    Load
	stop    chan struct{}
	workers sync.WaitGroup
	next    atomic.Int64 // the last call begun
	settled atomic.Int64
	repeats atomic.Int64

	mu      sync.Mutex
	verdict Verdict
}

// Start begins the load. Stop ends it.
func (l Load) Start() *Traffic {
	l.OneTry = cmp.Or(l.OneTry, oneTry)
	t := &Traffic{load: l, stop: make(chan struct{})}
	for range l.Workers {
		t.workers.Go(t.work)
	}
	return t
}

// Settled is how many calls were settled so far.
func (t *Traffic) Settled() int { return int(t.settled.Load()) }

// Repeats is how many requests a store failed so far.
func (t *Traffic) Repeats() int { return int(t.repeats.Load()) }

// AwaitSettled waits until so many more calls have been settled; false when that
// takes longer than the patience of a caller.
func (t *Traffic) AwaitSettled(more int) bool {
	want := t.Settled() + more
	for deadline := time.Now().Add(t.load.Patience); t.Settled() < want; time.Sleep(betweenTries) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Stop lets the calls under way end, asks once more for every call, and returns
// the verdict.
func (t *Traffic) Stop() Verdict {
	close(t.stop)
	t.workers.Wait()
	last := t.next.Load()
	var at atomic.Int64
	for range t.load.Workers {
		t.workers.Go(func() {
			for id := at.Add(1); id <= last; id = at.Add(1) {
				t.replay(id, "at the end")
			}
		})
	}
	t.workers.Wait()
	t.verdict.Calls, t.verdict.Repeats = t.Settled(), t.Repeats()
	return t.verdict
}

func (t *Traffic) work() {
	for {
		select {
		case <-t.stop:
			return
		default:
			t.call(t.next.Add(1))
		}
	}
}

// call is one call with its rivals.
func (t *Traffic) call(id int64) {
	begin := time.Now()
	var wins atomic.Int32
	var crowd sync.WaitGroup
	for rival := range wanted {
		crowd.Go(func() {
			if t.claim(id, rival) {
				wins.Add(1)
			}
		})
	}
	crowd.Wait()
	if n := wins.Load(); n != 1 {
		t.complain("call %d was won %d times", id, n)
		return
	}
	t.replay(id, "at once")
	took := time.Since(begin)
	t.settled.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.verdict.Slowest = max(t.verdict.Slowest, took)
}

// claim asks for a call until there is an answer, and settles it when it is won.
func (t *Traffic) claim(id int64, rival int) (won bool) {
	store := t.store(id + int64(rival))
	req := t.request(id, fmt.Sprintf("rival %d", rival))
	var admission dedupe.Admission
	if err := t.insist(func(ctx context.Context) (err error) {
		admission, err = store.Admit(ctx, req)
		return err
	}); err != nil {
		t.complain("call %d: rival %d was told nothing: %v", id, rival, err)
		return false
	}
	if got := admission.Verdict; got != dedupe.Won {
		if got != dedupe.InFlight && got != dedupe.Replay {
			t.complain("call %d: rival %d got %v", id, rival, got)
		}
		return false
	}
	if admission.Record.Epoch != 1 {
		t.complain("call %d was won at epoch %d", id, admission.Record.Epoch)
	}
	var settled dedupe.SettleVerdict
	err := t.insist(func(ctx context.Context) (err error) {
		settled, err = store.Settle(ctx, dedupe.Settlement{
			Key: req.Key, Owner: req.Owner, Epoch: admission.Record.Epoch, State: dedupe.Done,
			Attempts: 1, Result: resultOf(id), Retention: req.Retention,
		})
		return err
	})
	if err != nil || settled != dedupe.Settled {
		t.complain("call %d: its settlement is %v, %v", id, settled, err)
	}
	return true
}

// replay asks for a call that is settled.
func (t *Traffic) replay(id int64, when string) {
	var admission dedupe.Admission
	err := t.insist(func(ctx context.Context) (err error) {
		admission, err = t.store(id+1).Admit(ctx, t.request(id, "late"))
		return err
	})
	switch {
	case err != nil:
		t.complain("call %d, %s: told nothing: %v", id, when, err)
	case admission.Verdict != dedupe.Replay:
		t.complain("call %d, %s: %v instead of its result", id, when, admission.Verdict)
	case string(admission.Record.Result) != string(resultOf(id)):
		t.complain("call %d, %s: the result is %q", id, when, admission.Record.Result)
	}
}

// insist sends a request until it is answered, or the patience is at its end.
func (t *Traffic) insist(request func(context.Context) error) (err error) {
	for deadline := time.Now().Add(t.load.Patience); time.Now().Before(deadline); time.Sleep(betweenTries) {
		ctx, cancel := context.WithTimeout(context.Background(), t.load.OneTry)
		err = request(ctx)
		cancel()
		if err == nil {
			return nil
		}
		t.repeats.Add(1)
	}
	return err
}

func (t *Traffic) store(n int64) dedupe.Store { return t.load.Stores[n%int64(len(t.load.Stores))] }

func (t *Traffic) request(id int64, owner string) dedupe.Request {
	return dedupe.Request{
		// Some share a conversation, so a slot, with others.
		Key:  tool.CallID{Tenant: t.load.Name, Conversation: fmt.Sprint(id % Conversations), Turn: "1", ID: fmt.Sprint(id)},
		Tool: "charge", Effect: tool.NonIdempotent, Fingerprint: [32]byte{1}, Owner: owner,
		Lease: lease, Retention: 24 * time.Hour,
	}
}

func resultOf(id int64) []byte { return fmt.Appendf(nil, "receipt %d", id*7919) }

func (t *Traffic) complain(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.verdict.Violations++
	if len(t.verdict.Complaints) < keptComplaints {
		t.verdict.Complaints = append(t.verdict.Complaints, fmt.Sprintf(format, args...))
	}
}
