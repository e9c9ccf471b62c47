package dedupe_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/tool"
)

// payAs is a request for one payment under an id.
func payAs(id string) dedupe.Request {
	req := refund(tool.NonIdempotent)
	req.Key.ID = id
	req.EffectKey = dedupe.EffectKey{Print: [32]byte{7}, Window: time.Hour}
	return req
}

// A call waits for another one that has its effect, here and in another process, and
// is then told what that did.
func TestWaitingForAnEffect(t *testing.T) {
	for name, at := range map[string]func(here, there *dedupe.Dedupe) *dedupe.Dedupe{
		"here":  func(here, _ *dedupe.Dedupe) *dedupe.Dedupe { return here },
		"there": func(_, there *dedupe.Dedupe) *dedupe.Dedupe { return there },
	} {
		for state, want := range map[dedupe.State]dedupe.Verdict{
			dedupe.Done: dedupe.DuplicateEffect, dedupe.Unknown: dedupe.EffectUnknown, dedupe.NotRun: dedupe.Won,
		} {
			t.Run(name+" "+state.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T, _ *wire, here, there *dedupe.Dedupe) {
					claim := win(t, here, payAs("a"))
					time.AfterFunc(3*time.Second, func() { settle(t, claim, state, "paid") })
					before := time.Now()
					got := expect(t.Context(), t, at(here, there), payAs("b"), want)
					if waited := time.Since(before); waited < 3*time.Second || waited > 5*time.Second {
						t.Errorf("told after %v", waited)
					}
					if want != dedupe.Won && (got.Earlier.ID != "a" || string(got.Record.Result) != "paid") {
						t.Errorf("told of %q, which said %q", got.Earlier.ID, got.Record.Result)
					}
					if want == dedupe.Won { // its own from now on
						expect(within(time.Second), t, there, payAs("c"), dedupe.EffectInFlight)
					}
					synctest.Wait()
				})
			})
		}
	}
}

// Whoever has no time left is told which call it waited for.
func TestWaitingForAnEffectHasAnEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		claim := win(t, here, payAs("a"))
		got := expect(within(2*time.Second), t, there, payAs("b"), dedupe.EffectInFlight)
		if got.Earlier.ID != "a" || got.Record.State != dedupe.Claimed {
			t.Errorf("told of %q, which is %v", got.Earlier.ID, got.Record.State)
		}
		w.latency.Store(int64(time.Second)) // its time is up while it asks
		got = expect(within(2500*time.Millisecond), t, there, payAs("b"), dedupe.EffectInFlight)
		if got.Earlier.ID != "a" {
			t.Errorf("told of %q", got.Earlier.ID)
		}
		w.latency.Store(0)
		settle(t, claim, dedupe.NotRun, "")
	})
}

// The duplicates of a call that waits for an effect follow it; one that was allowed
// to have it asks for itself.
func TestDuplicatesOfACallThatWaitsForAnEffect(t *testing.T) {
	bubble(t, func(t *testing.T, _ *wire, here, _ *dedupe.Dedupe) {
		claim := win(t, here, payAs("a"))
		ends := make(chan dedupe.Verdict, 4)
		for i := range 4 {
			req := payAs("b")
			req.EffectKey.Allow = i == 3
			go func() {
				ticket := here.Join(req.Key)
				defer ticket.Leave()
				a, won, err := ticket.Admit(t.Context(), req)
				if err == nil && a.Verdict.Waits() {
					a, won, err = ticket.Wait(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
				if won != nil {
					settle(t, won, dedupe.Done, "paid again")
				}
				ends <- a.Verdict
			}()
			synctest.Wait()
		}
		settle(t, claim, dedupe.Done, "paid")
		seen := map[dedupe.Verdict]int{}
		for range 4 {
			seen[<-ends]++
		}
		// Those who asked before it was allowed are refused, those after it get its result.
		if seen[dedupe.Won] != 1 || seen[dedupe.DuplicateEffect]+seen[dedupe.Replay] != 3 {
			t.Errorf("told %v", seen)
		}
	})
}

// A process that the store has forgotten tells it of the effect too.
func TestAnEffectThatTheStoreForgets(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		req := payAs("a")
		req.Effect = tool.Keyed
		claim := win(t, here, req)
		w.Store = embedded.InMemory(embedded.Options{})
		w.down.Store(false)          // after which the renewal sees it
		time.Sleep(30 * time.Second) // a renewal finds out
		expect(within(time.Second), t, there, payAs("b"), dedupe.EffectInFlight)
		w.Store = embedded.InMemory(embedded.Options{})
		w.down.Store(false) // after which the renewal sees it
		settle(t, claim, dedupe.Done, "paid")
		got := expect(t.Context(), t, there, payAs("b"), dedupe.DuplicateEffect)
		if got.Earlier.ID != "a" {
			t.Errorf("told of %q", got.Earlier.ID)
		}
	})
}

// However many hold the effect by then, what became of a call that the store had
// forgotten is recorded.
func TestAForgottenCallIsRecordedBesideMany(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		claim := win(t, here, payAs("a"))
		w.Store = embedded.InMemory(embedded.Options{})
		w.down.Store(false) // after which the renewal sees it
		for i := range dedupe.MaxHolders {
			req := payAs(fmt.Sprint(i))
			req.EffectKey.Allow = true
			win(t, there, req)
		}
		settle(t, claim, dedupe.Done, "paid")
		expect(t.Context(), t, there, payAs("a"), dedupe.Replay)
	})
}
