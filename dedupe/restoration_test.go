package dedupe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
)

// A call that runs for longer than its record is kept without a renewal is
// renewed until its end, and its id is no other's meanwhile.
func TestARunningCallOutlivesItsRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{Store: embedded.InMemory(embedded.Options{})}
		options := dedupe.Options{Lease: 2 * time.Second, Retention: time.Minute}
		here, there := dedupe.New(w, options), dedupe.New(w, options)
		defer func() { _ = here.Close(context.Background()); _ = there.Close(context.Background()) }()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		ticket := here.Join(refund(tool.NonIdempotent).Key)
		defer ticket.Leave()
		a, claim, err := ticket.Admit(ctx, refund(tool.NonIdempotent))
		if err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		for range 9 {
			time.Sleep(time.Minute)
			expect(within(time.Second), t, there, refund(tool.NonIdempotent), dedupe.InFlight)
			if got, err := there.Lookup(t.Context(), refund(0).Key); err != nil || got.State != dedupe.Claimed || !claim.Held() {
				t.Fatalf("%v, %v, held %v", got.State, err, claim.Held())
			}
		}
		settle(t, claim, dedupe.Done, "ok")
	})
}

// A caller that leaves ends no call: renewal goes on for as long as the call may
// last.
func TestACallThatOutlastsItsCallerKeepsItsClaim(t *testing.T) {
	bubble(t, func(t *testing.T, _ *wire, here, there *dedupe.Dedupe) {
		ticket := here.Join(refund(tool.NonIdempotent).Key)
		defer ticket.Leave()
		_, claim, err := ticket.Admit(within(time.Second), refund(tool.NonIdempotent))
		if err != nil {
			t.Fatal(err)
		}
		claim.KeepUntil(time.Now().Add(5 * time.Minute))
		time.Sleep(5 * time.Minute)
		if !claim.Held() {
			t.Error("given up with its caller")
		}
		time.Sleep(2 * time.Minute)
		if claim.Held() {
			t.Error("never given up")
		}
		expect(t.Context(), t, there, refund(tool.NonIdempotent), dedupe.OutcomeUnknown)
	})
}

// A store that forgets a running call hears of it again from the next renewal,
// as often as it forgets. No other then runs what must not be repeated.
func TestARunningCallThatTheStoreForgets(t *testing.T) {
	for effect, duplicate := range map[tool.Effect]dedupe.Verdict{
		tool.NonIdempotent: dedupe.OutcomeUnknown, tool.Keyed: dedupe.InFlight,
	} {
		t.Run(effect.String(), func(t *testing.T) {
			journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
				call := refund(effect)
				claim := win(t, here.Dedupe, call)
				for n := range 2 {
					w.Store = keeps{embedded.InMemory(embedded.Options{})}
					w.down.Store(false)          // after which the renewal sees it
					time.Sleep(11 * time.Second) // a third of the lease, and a little
					expect(within(time.Second), t, there, call, duplicate)
					if got := claim.Held(); got != effect.Repeatable() {
						t.Errorf("held: %v", got)
					}
					here.says(t, "ERROR", "the store had forgotten a running call", n+1)
				}
				expect(within(time.Second), t, here.Dedupe, call, dedupe.InFlight) // where it runs, they wait for it
				settle(t, claim, dedupe.Done, "paid")
				if got := here.Late(); got != (dedupe.LateState{Forgotten: 2}) {
					t.Errorf("%+v", got)
				}
				if a := expect(t.Context(), t, there, call, dedupe.Replay); string(a.Record.Result) != "paid" {
					t.Errorf("replayed %q", a.Record.Result)
				}
			})
		})
	}
}

// It provably did not run: its id is free again, though it was written back.
func TestARestoredCallThatDidNotRun(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		claim := win(t, here.Dedupe, call)
		w.Store = keeps{embedded.InMemory(embedded.Options{})}
		w.down.Store(false) // after which the renewal sees it
		time.Sleep(11 * time.Second)
		expect(t.Context(), t, there, call, dedupe.OutcomeUnknown)
		settle(t, claim, dedupe.NotRun, "")
		win(t, there, call)
	})
}

// Whoever was faster has the call: its owner writes nothing over it.
func TestAForgottenCallThatIsAnothersIsNotRestored(t *testing.T) {
	journaled(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		call := refund(tool.NonIdempotent)
		claim := win(t, here.Dedupe, call)
		w.Store = keeps{embedded.InMemory(embedded.Options{})}
		w.down.Store(false) // after which the renewal sees it
		next := win(t, there, call)
		time.Sleep(time.Minute)
		if claim.Held() || !next.Held() {
			t.Errorf("held: %v, and by the other %v", claim.Held(), next.Held())
		}
		settle(t, next, dedupe.Done, "theirs")
		if v, err := claim.Settle(t.Context(), done("ours")); err != nil || v != dedupe.Superseded {
			t.Errorf("%v, %v", v, err)
		}
		here.says(t, "ERROR", "settlement superseded", 1)
	})
}
