//go:build prove

package rolling

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
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

const (
	// rate is how many new ids there are in a second.
	rate = 200
	// places bounds the ids that are under way at a time: a sidecar that is away does not
	// make a flood of those that wait for it.
	places = 2 * rate
	// works is how long a call takes at its backend, when it has had its effect: some
	// are always at work when a sidecar is told to end.
	works = 50 * time.Millisecond
	// patience is how long an id is sent again that has no result.
	patience = 2 * time.Minute
)

// endpoint is a sidecar, and how many calls are open there.
type endpoint struct {
	*harness.Sidecar
	open atomic.Int64
}

// fleet are the sidecars that agents know, and the load on them.
type fleet struct {
	*testing.T
	up *upstream.Server

	mu        sync.Mutex
	endpoints []*endpoint

	// begun are ids, done those with their results. again counts what was sent another
	// time before there was a result, replayed the results that a record answered.
	begun, done, again, replayed, violations atomic.Int64
	// cut are the calls that were open at a sidecar when it was told to end.
	cut int64
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	api := upstream.New(upstream.NewLedger())
	api.Script("/act", upstream.Echo().After(works))
	up, err := upstream.Start(api, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	return &fleet{T: t, up: up}
}

// config is that of a sidecar with a store.
func (f *fleet) config(store string) string {
	return fmt.Sprintf(`
default_profile: code
profiles: {code: {loop_guard: {off: true}}}
store: %s
backends: {up: {http: {base_url: %q, allow_private: true}}}
tools:
  act: {backend: up, http: {method: POST, path: /act}}
  put: {backend: up, effect: idempotent, http: {method: POST, path: /act}}
`, store, f.up.URL)
}

// add lets agents know a sidecar that runs.
func (f *fleet) add(s *harness.Sidecar) *endpoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := &endpoint{Sidecar: s}
	f.endpoints = append(f.endpoints, e)
	return e
}

// remove takes one out that has ended.
func (f *fleet) remove(e *endpoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.endpoints {
		if f.endpoints[i] == e {
			f.endpoints = append(f.endpoints[:i], f.endpoints[i+1:]...)
			return
		}
	}
}

func (f *fleet) any() *endpoint {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.endpoints[rand.IntN(len(f.endpoints))]
}

// end tells a sidecar with calls at work to end, and waits until it has, well.
func (f *fleet) end(e *endpoint) {
	f.Helper()
	harness.WaitFor(f, "calls at the sidecar", func() bool { return e.open.Load() > 0 || f.Failed() })
	f.cut += e.open.Load()
	e.Stop()
}

// awaitCalls waits until so many more ids have their results.
func (f *fleet) awaitCalls(more int64) {
	f.Helper()
	until := f.done.Load() + more
	harness.WaitFor(f, "calls to end", func() bool { return f.done.Load() >= until || f.Failed() })
}

func (f *fleet) violate(format string, args ...any) {
	f.Helper()
	f.violations.Add(1)
	f.Errorf(format, args...)
}

// start begins the load, and returns what ends it, when all ids have their results.
func (f *fleet) start() (stop func()) {
	quit := make(chan struct{})
	under := make(chan struct{}, places)
	var all sync.WaitGroup
	all.Go(func() { // ends with quit
		beat := time.NewTicker(time.Second / rate)
		defer beat.Stop()
		for began := time.Now(); ; {
			select {
			case <-quit:
				return
			case <-beat.C:
			}
			for due := int64(time.Since(began).Seconds() * rate); f.begun.Load() < due; {
				select {
				case <-quit:
					return
				case under <- struct{}{}:
				}
				id := fmt.Sprint("id", f.begun.Add(1))
				all.Go(func() {
					defer func() { <-under }()
					f.one(id)
				})
			}
		}
	})
	return func() { close(quit); all.Wait() }
}

// one sends an id until it has its result, and then once more: what it is answered
// then is the record, wherever it is asked.
func (f *fleet) one(id string) {
	first := f.result(id)
	if first == nil {
		return // said already
	}
	f.done.Add(1)
	if first.GetReplayed() {
		f.replayed.Add(1)
	}
	switch record := f.result(id); {
	case first.GetIsError():
		f.violate("%s: %v", id, first)
	case record != nil && (!record.GetReplayed() || record.GetContent() != first.GetContent()):
		f.violate("%s: it was answered by %v, and then by %v", id, first, record)
	}
}

// again is what says that nothing was done, or nothing can be said yet.
var again = map[string]bool{"IN_PROGRESS": true, "OVERLOADED": true}

// result sends an id until it has a result, to any sidecar each time.
func (f *fleet) result(id string) *sidecallv1.ExecuteToolResponse {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	name := []string{"act", "put"}[id[len(id)-1]%2]
	var last any
	for ctx.Err() == nil {
		e := f.any()
		e.open.Add(1)
		res, err := e.Client.ExecuteTool(ctx, &sidecallv1.ExecuteToolRequest{ToolUseId: id, ToolName: name, ArgumentsJson: fmt.Sprintf(`{"key":%q}`, id)})
		e.open.Add(-1)
		switch {
		case err != nil && status.Code(err) != codes.Unavailable:
			f.violate("%s: %v", id, err)
			return nil
		case err != nil:
			last = err
		case again[res.GetError().GetCode()]:
			last = res
		default:
			return res
		}
		f.again.Add(1)
		select {
		case <-time.After(50 * time.Millisecond): // before it is sent again
		case <-ctx.Done():
		}
	}
	f.violate("%s has no result: %v", id, last)
	return nil
}

// report counts what was executed, and adds the row.
func (f *fleet) report(fault, store string, replaced int, took time.Duration) {
	f.Helper()
	ids := int(f.begun.Load())
	for n := range ids {
		id := fmt.Sprint("id", n+1)
		if ran := f.up.Ledger.Executions(id); ran != 1 {
			f.violate("%s was executed %d times", id, ran)
		}
	}
	if ran := f.up.Ledger.Total(); ran != ids {
		f.violate("%d ids, and %d executions", ids, ran)
	}
	if f.cut == 0 || f.again.Load() == 0 {
		f.Errorf("%d calls were open at sidecars that were told to end, %d were sent again: this shows nothing", f.cut, f.again.Load())
	}
	perSecond := float64(ids) / took.Seconds()
	if proof.Full() && perSecond < 0.9*rate {
		f.Errorf("the load was %.0f calls/s, and not %d", perSecond, rate)
	}
	proof.Report(f, proof.Row{
		Fault: fault, Store: store, Runs: ids, Violations: int(f.violations.Load()),
		Figure: fmt.Sprintf("%d sidecars replaced with %d calls at work, at %.0f calls/s; every id ran once and has one result; %d sent again, %d of them answered from the record",
			replaced, f.cut, perSecond, f.again.Load(), f.replayed.Load()),
	})
}
