package dedupe_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// asks fails unless a ticket is told the wanted verdict, at once.
func asks(t *testing.T, ticket *dedupe.Ticket, want dedupe.Verdict) (dedupe.Admission, *dedupe.Claim) {
	t.Helper()
	before := time.Now()
	a, claim, err := ticket.Admit(t.Context(), refund(tool.NonIdempotent))
	if err != nil || a.Verdict != want || (claim != nil) != (want == dedupe.Won) {
		t.Errorf("got %v (claim %v), %v; want %v", a.Verdict, claim != nil, err, want)
	}
	if waited := time.Since(before); waited != 0 {
		t.Errorf("waited %v to be told", waited)
	}
	return a, claim
}

func join(d *dedupe.Dedupe) *dedupe.Ticket { return d.Join(refund(0).Key) }

func TestTheFirstInLineLeads(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		first, second := join(here), join(here)
		defer first.Leave()
		defer second.Leave()
		if !first.Leads() || second.Leads() {
			t.Errorf("first leads: %v, second leads: %v", first.Leads(), second.Leads())
		}
		if other := join(there); !other.Leads() {
			t.Error("the first of another process does not lead")
		}
		// What the first one wants is not known yet, so nothing is known of the call.
		asks(t, second, dedupe.InFlight)
		if got := w.admits.Load(); got != 0 {
			t.Errorf("%d round trips so far", got)
		}
		_, claim := asks(t, first, dedupe.Won)
		asks(t, second, dedupe.InFlight)
		settle(t, claim, dedupe.Done, "ok")
		asks(t, second, dedupe.Replay)
		if got := w.admits.Load(); got != 1 {
			t.Errorf("%d admissions, want the first one's", got)
		}
	})
}

// waitsIn lets a number of requests wait in a line; each must get a claim or a
// replay, and leaves.
func waitsIn(t *testing.T, d *dedupe.Dedupe, n int) (crowd *sync.WaitGroup) {
	t.Helper()
	crowd = new(sync.WaitGroup)
	for range n {
		ticket := join(d)
		asks(t, ticket, dedupe.InFlight)
		crowd.Go(func() {
			defer ticket.Leave()
			a, claim, err := ticket.Wait(t.Context())
			switch {
			case err != nil:
				t.Error(err)
			case claim != nil:
				time.Sleep(time.Second)
				settle(t, claim, dedupe.Done, "ok")
			case a.Verdict != dedupe.Replay:
				t.Errorf("got %v", a.Verdict)
			}
		})
	}
	synctest.Wait()
	return crowd
}

// Whoever leads and finds no room, say, makes way: one of those who wait leads
// then, and the others wait for that one.
func TestWhoeverLeavesLetsTheNextLead(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		first := join(here)
		crowd := waitsIn(t, here, 20)
		first.Leave()
		first.Leave()
		crowd.Wait()
		if got := w.admits.Load(); got != 1 {
			t.Errorf("%d admissions, want the next one's", got)
		}
	})
}

// The same when the store panics under the one who leads.
func TestAPanicLetsTheNextLead(t *testing.T) {
	on(t, buggy{admits: 1}, func(t *testing.T, here, _ *dedupe.Dedupe) {
		first := join(here)
		crowd := waitsIn(t, here, 5)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			defer first.Leave()
			_, _, err := first.Admit(t.Context(), refund(tool.NonIdempotent))
			t.Errorf("admitted: %v", err)
		}()
		crowd.Wait()
	})
}

// A claim outlives the place in line.
func TestWhoeverHasWonLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		first := join(here)
		_, claim := asks(t, first, dedupe.Won)
		first.Leave()
		crowd := waitsIn(t, here, 5)
		settle(t, claim, dedupe.Done, "ok")
		crowd.Wait()
		if got := w.admits.Load(); got != 1 {
			t.Errorf("%d admissions, want one", got)
		}
	})
}

// A follower that asks when the flight has ended without an answer leads.
func TestAFollowerLeadsWhenTheFlightHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		first, second := join(here), join(here)
		defer second.Leave()
		first.Leave()
		_, claim := asks(t, second, dedupe.Won)
		if !second.Leads() {
			t.Error("it has won and does not lead")
		}
		settle(t, claim, dedupe.Done, "ok")
		if got := w.admits.Load(); got != 1 {
			t.Errorf("%d admissions", got)
		}
	})
}

// An answer that has changed since is asked for again with the same ticket, by
// the one who led and by those who followed.
func TestATicketAsksAnewAfterAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, _ *wire, here, there *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		follower := join(here)
		defer follower.Leave()
		settle(t, claim, dedupe.Unknown, "")
		leader := join(here)
		defer leader.Leave()
		for _, ticket := range []*dedupe.Ticket{follower, leader} {
			asks(t, ticket, dedupe.OutcomeUnknown)
		}
		record, err := there.Lookup(t.Context(), refund(0).Key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := there.Resolve(t.Context(), dedupe.Listed{Key: refund(0).Key, Record: record}, dedupe.Done, []byte("paid")); err != nil {
			t.Fatal(err)
		}
		for _, ticket := range []*dedupe.Ticket{follower, leader} {
			if a, _ := asks(t, ticket, dedupe.Replay); string(a.Record.Result) != "paid" {
				t.Errorf("replayed %q", a.Record.Result)
			}
		}
	})
}

func wantAtWork(t *testing.T, d *dedupe.Dedupe, want bool) {
	t.Helper()
	if got := d.AtWork(refund(0).Key); got != want {
		t.Errorf("at work: %v, want %v", got, want)
	}
}

func TestAtWorkFromJoinToSettlement(t *testing.T) {
	bubble(t, func(t *testing.T, _ *wire, here, there *dedupe.Dedupe) {
		wantAtWork(t, here, false)
		ticket := join(here)
		wantAtWork(t, here, true)
		_, claim := asks(t, ticket, dedupe.Won)
		ticket.Leave()
		wantAtWork(t, here, true)
		wantAtWork(t, there, false)
		settle(t, claim, dedupe.Done, "ok")
		wantAtWork(t, here, false)
		join(here).Leave()
		wantAtWork(t, here, false)
	})
}

// A call whose claim is lost is at work until it is settled, and nobody follows
// it: what became of it is asked of the store.
func TestALostCallIsAtWorkAndLeadsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		w.down.Store(true)
		time.Sleep(32 * time.Second) // and not 31, when the renewal is tried once more
		w.down.Store(false)
		expect(t.Context(), t, there, refund(tool.NonIdempotent), dedupe.OutcomeUnknown)
		time.Sleep(10 * time.Second) // until it learns of it
		wantAtWork(t, here, true)
		admits := w.admits.Load()
		expect(t.Context(), t, here, refund(tool.NonIdempotent), dedupe.OutcomeUnknown)
		if got := w.admits.Load() - admits; got != 1 {
			t.Errorf("asked %d times, want once", got)
		}
		wantAtWork(t, here, true)
		if _, err := claim.Settle(context.Background(), dedupe.Settlement{State: dedupe.Done}); err != nil {
			t.Error(err)
		}
		wantAtWork(t, here, false)
	})
}
