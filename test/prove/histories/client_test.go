package histories

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
)

// record runs histories on a store, on the clock of a bubble, and returns how
// many of them are refused.
func record(t *testing.T, histories int, store dedupe.Store) (refused int, seen Coverage) {
	t.Helper()
	const clients = 5
	var last atomic.Int64 // time stands still in a bubble, but one follows the other
	seen = Coverage{}
	for n := range histories {
		recorder := NewRecorder()
		base := Client{
			Now:   func() int64 { return time.Now().UnixNano() + last.Add(1) },
			Ended: func(op Operation) { recorder.Add(0, op) },
		}
		order := Order{Seed: 7, History: n, Clients: []int{0, 1, 2, 3, 4}, Total: clients}
		order.Perform(t.Context(), store, base)
		order.Conclude = true
		order.Perform(t.Context(), store, base)
		plan := NewPlan(7, n)
		h := History{Name: fmt.Sprint(n), Keys: plan.Keys, Operations: recorder.Take(n, nil)}
		for i := range h.Operations {
			seen.Note(&h.Operations[i], plan)
		}
		seen.NoteLate(h.Operations)
		if Check(h, t.TempDir()) != nil {
			refused++
		}
	}
	return refused, seen
}

// TestClients: what the clients ask shows everything that there is to see.
func TestClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused, seen := record(t, 2500, embedded.InMemory(embedded.Options{})) // some of it is rare
		if refused > 0 {
			t.Errorf("%d histories are refused", refused)
		}
		seen[SawUnheard]++ // on a clock that only moves when nobody works, nobody is late
		if missing := seen.Missing(Needed); len(missing) > 0 {
			t.Errorf("no history shows %v: %v", missing, seen)
		}
	})
}

// generous is a store that confirms settlements that it refuses.
type generous struct{ dedupe.Store }

func (g generous) Settle(ctx context.Context, s dedupe.Settlement) (dedupe.SettleVerdict, error) {
	_, err := g.Store.Settle(ctx, s)
	return dedupe.Settled, err
}

// forgetful is a store that forgets its claims with their leases.
type forgetful struct{ dedupe.Store }

func (f forgetful) Admit(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	req.Retention = req.Lease
	return f.Store.Admit(ctx, req)
}

// TestBrokenStores: the histories of a store that breaks a promise are refused.
func TestBrokenStores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, broken := range []dedupe.Store{
			generous{embedded.InMemory(embedded.Options{})}, forgetful{embedded.InMemory(embedded.Options{})},
		} {
			if refused, _ := record(t, 50, broken); refused == 0 {
				t.Errorf("%T: nobody noticed", broken)
			}
		}
	})
}

// TestNoteLate: a settlement is late when the call was found to be undecided
// before it, because its lease had run out.
func TestNoteLate(t *testing.T) {
	t.Parallel()
	found := Operation{
		Kind: Admit, Return: 10, Heard: true, Verdict: dedupe.OutcomeUnknown, Record: Record{State: dedupe.Unknown, Owner: "a", Epoch: 2},
	}
	settled := Operation{Kind: Settle, Call: 20, Return: 30, Heard: true, OK: true, Owner: "a", Epoch: 2, To: dedupe.Done}
	with := func(change func(found, settled *Operation), more ...Operation) []Operation {
		f, s := found, settled
		change(&f, &s)
		return append([]Operation{s, f}, more...)
	}
	resolved := settled
	resolved.Resolves = true
	for what, c := range map[string]struct {
		ops  []Operation
		want int
	}{
		"late":                {with(func(*Operation, *Operation) {}), 1},
		"seen afterwards":     {with(func(f, _ *Operation) { f.Return = 25 }), 0},
		"another key":         {with(func(f, _ *Operation) { f.Key = 1 }), 0},
		"another epoch":       {with(func(f, _ *Operation) { f.Record.Epoch = 1 }), 0},
		"unknown by itself":   {with(func(f, _ *Operation) { f.Record.Attempts = 1 }), 0},
		"a lease that holds":  {with(func(f, _ *Operation) { f.Verdict = dedupe.InFlight }), 0},
		"refused":             {with(func(_, s *Operation) { s.OK = false }), 0},
		"resolved by another": {with(func(*Operation, *Operation) {}, resolved), 0},
	} {
		seen := Coverage{}
		if seen.NoteLate(c.ops); seen[SawLate] != c.want {
			t.Errorf("%s: %d late settlements, want %d", what, seen[SawLate], c.want)
		}
	}
}

// TestUnansweredOperations: what was cut off takes effect before the end of its
// phase, or never.
func TestUnansweredOperations(t *testing.T) {
	t.Parallel()
	r := NewRecorder()
	r.Add(0, Operation{History: 3, Client: 1, Return: Never})
	r.Add(1, Operation{History: 3, Client: 1, Return: Never})
	r.Add(1, Operation{History: 3, Client: 1, Return: 20, Heard: true}) // its answer
	r.Add(2, Operation{History: 3, Client: 1, Call: 60, Return: Never})
	r.Add(0, Operation{History: 4})
	got := map[int64]bool{}
	for _, op := range r.Take(3, map[int]int64{0: 10, 1: 50, 2: 55}) {
		got[op.Return] = true
	}
	if len(got) != 3 || !got[10] || !got[20] || !got[60] {
		t.Errorf("they return at %v, want 10, 20 and 60", got)
	}
	if again := r.Take(3, nil); len(again) != 0 {
		t.Errorf("taken twice: %v", again)
	}
}

// TestSendsBetween: each connection that was cut while a request was under way
// may have made the store send it again.
func TestSendsBetween(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after uint64
		want          int
	}{
		{0, 0, 0}, {4, 4, 0}, // nothing was cut
		{0, 1, 1}, {0, 2, 1}, // begun, and done
		{1, 1, 1}, {1, 2, 1}, // one that had begun before
		{1, 4, 2}, {0, 4, 2},
		{0, 20, 2}, // three tries at the most
	} {
		if got := sendsBetween(c.before, c.after, Admit, true); got != c.want {
			t.Errorf("from %d to %d: %d, want %d", c.before, c.after, got, c.want)
		}
	}
	if sendsBetween(4, 4, Admit, false) != 2 {
		t.Error("what was given up may be sent again afterwards")
	}
	if sendsBetween(0, 2, Lookup, true) != 0 || sendsBetween(0, 2, Lookup, false) != 0 {
		t.Error("a lookup changes nothing, however often it is sent")
	}
}
