package refusals

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// Kind is a kind of store.
type Kind struct {
	// Open opens it as a process does.
	Open func(t *testing.T) dedupe.Store
	// Outlives: what it holds is there for the next process, which is what is asked
	// then. Else one process does it all, and there are no records that were left.
	Outlives bool
	// Shared: several processes have it at the same time, so that it is another one in
	// which the payments run that are running.
	Shared bool
}

// Run asks, on a kind of store, for a payment in every state of its record, with every
// reason to refuse it.
func Run(t *testing.T, kind Kind) {
	t.Helper()
	s := processes(t, kind)
	elsewhere := s.Dedupe
	if kind.Shared {
		elsewhere = process(t, kind, "elsewhere")
		t.Cleanup(func() {
			if err := elsewhere.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range Reasons {
		r := &Reasons[i]
		t.Run(r.Name, func(t *testing.T) {
			for _, state := range states {
				if state == left && !kind.Outlives {
					continue
				}
				t.Run(string(state), func(t *testing.T) { one(t, s, elsewhere, r, state) })
			}
		})
	}
}

// processes has a process make the records, and returns the one that is asked for them.
func processes(t *testing.T, kind Kind) *calltest.Sidecar {
	t.Helper()
	if !kind.Outlives {
		s := calltest.NewOn(t, kind.Open(t))
		records(t, s.Dedupe, kind)
		return s
	}
	store := kind.Open(t)
	before := dedupe.New(store, options("shop"))
	alone(t, before)
	records(t, before, kind)
	if err := store.Close(); err != nil { // what a kill leaves of it: nothing was ended
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = before.Close(context.Background()) }) // it has no store any more
	s := calltest.NewWith(t, kind.Open(t), options("shop"))
	alone(t, s.Dedupe)
	return s
}

func records(t *testing.T, d *dedupe.Dedupe, kind Kind) {
	t.Helper()
	for i := range Reasons {
		for _, state := range states {
			if state != left || kind.Outlives {
				record(t, d, &Reasons[i], state)
			}
		}
	}
}

// options are those of a process of an instance, which knows that the one before it
// is gone, and outlives that its machine stands still for a while.
func options(instance string) dedupe.Options {
	return dedupe.Options{Instance: instance, Gone: func(dedupe.Who) bool { return true }, Lease: patience, Tenure: patience}
}

func process(t *testing.T, kind Kind, instance string) *dedupe.Dedupe {
	t.Helper()
	d := dedupe.New(kind.Open(t), options(instance))
	alone(t, d)
	return d
}

func alone(t *testing.T, d *dedupe.Dedupe) {
	t.Helper()
	if err := d.Alone(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// one asks for a payment that a reason speaks against, in a state of its record.
func one(t *testing.T, s *calltest.Sidecar, elsewhere *dedupe.Dedupe, r *Reason, state state) {
	t.Helper()
	w := &world{Sidecar: s.Beside(t), t: t, req: payment(r, state), pays: calltest.Answers(again), stands: state == absent || state == notRun}
	w.now(w.charge())
	var running *claimed
	if state.isRunning() {
		running = begin(t, elsewhere, w.req)
	}
	waiting := full() // nobody else is to wait: that would take the time of a call
	if state == runs {
		waiting = limit.NewBulkhead(1)
	}
	w.With(func(p *call.Parts) { p.Waiting = waiting })
	r.arrange(w)
	asked := w.pays.Calls.Load()
	var res *sidecallv1.ExecuteToolResponse
	if state == runs {
		res = w.untilItEnds(running, waiting)
	} else {
		res = w.ask()
	}
	calltest.CheckInvariants(t, w.req, res)
	w.judge(r, state, res, int(w.pays.Calls.Load()-asked))
	if state == runsCrowded {
		running.end(t, dedupe.Done)
	}
}

// untilItEnds asks for a payment that runs, which ends while it is waited for.
func (w *world) untilItEnds(running *claimed, waiting *limit.Bulkhead) *sidecallv1.ExecuteToolResponse {
	answered := make(chan *sidecallv1.ExecuteToolResponse, 1)
	go func() { answered <- w.ask() }()
	for waiting.InFlight() == 0 {
		select {
		case res := <-answered:
			w.t.Errorf("it was not waited for")
			running.end(w.t, dedupe.Done)
			return res
		case <-time.After(time.Millisecond): // between two looks
		}
	}
	running.end(w.t, dedupe.Done)
	return <-answered
}

// judge compares what is told with what is known.
func (w *world) judge(r *Reason, state state, res *sidecallv1.ExecuteToolResponse, sent int) {
	w.t.Helper()
	want, content := r.Code, again
	switch {
	case w.stands:
	case r.Mismatch:
		want = tool.CodeIDReused
	case state == done || state == runs:
		want, content = "", paid
	case state == runsCrowded:
		want = tool.CodeInProgress
	case state == unknown || state == left:
		want = tool.CodeOutcomeUnknown
	}
	if got := calltest.Code(res); got != want || want == "" && res.GetContent() != content {
		w.t.Errorf("got %s, want %q", res.GetContent(), want)
	}
	if w.stands && (!strings.Contains(res.GetError().GetConstraint(), r.Says) || res.GetStop() != r.Stops) {
		w.t.Errorf("it is refused for something else: %s", res.GetContent())
	}
	if replayed := content == paid || !w.stands && want == tool.CodeOutcomeUnknown; res.GetReplayed() != replayed {
		w.t.Errorf("replayed is %t: %v", res.GetReplayed(), res)
	}
	most := len(w.before)
	if w.stands && r.Code == "" {
		most++
	}
	if sent != most {
		w.t.Errorf("the backend was asked %d times, want %d", sent, most)
	}
}
