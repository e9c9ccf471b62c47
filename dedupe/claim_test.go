package dedupe_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

func TestALongCallKeepsItsClaim(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		for range 300 {
			time.Sleep(time.Second)
			if !claim.Held() {
				t.Fatal("the claim was lost")
			}
		}
		expect(within(time.Second), t, there, refund(tool.NonIdempotent), dedupe.InFlight)
		if got := w.renews.Load(); got < 29 || got > 31 {
			t.Errorf("renewed %d times in 300 s, want every lease/3 = 10 s", got)
		}
		settle(t, claim, dedupe.Done, "ok")
		renews := w.renews.Load()
		time.Sleep(time.Minute)
		if got := w.renews.Load(); got != renews {
			t.Errorf("renewed %d times after it was settled", got-renews)
		}
	})
}

func TestAShortCallIsNeverRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		time.Sleep(9 * time.Second)
		settle(t, claim, dedupe.Done, "ok")
		time.Sleep(time.Minute)
		if got := w.renews.Load(); got != 0 {
			t.Errorf("renewed %d times", got)
		}
	})
}

// The lease is counted from when the request was sent: the answer may have been
// a long time on its way.
func TestHeldCountsFromTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		w.latency.Store(int64(8 * time.Second))
		claim := win(t, here, refund(tool.NonIdempotent))
		w.latency.Store(0)
		w.down.Store(true)
		time.Sleep(21 * time.Second)
		if !claim.Held() {
			t.Error("lost after 29 s of 30")
		}
		time.Sleep(time.Second)
		if claim.Held() {
			t.Error("held after 30 s without renewal")
		}
		// The store is back and nobody has looked: the claim is ours again.
		w.down.Store(false)
		time.Sleep(5 * time.Second)
		if !claim.Held() {
			t.Error("not taken up again")
		}
		settle(t, claim, dedupe.Done, "ok")
	})
}

func TestAClaimThatAnObserverEndedIsNotHeld(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		w.down.Store(true)
		time.Sleep(32 * time.Second) // and not 31, when the renewal is tried once more
		w.down.Store(false)
		expect(t.Context(), t, there, refund(tool.NonIdempotent), dedupe.OutcomeUnknown)
		time.Sleep(10 * time.Second)
		if claim.Held() {
			t.Error("still held")
		}
		// Its duplicates here no longer wait for it, but its owner may still
		// say what became of the call.
		expect(t.Context(), t, here, refund(tool.NonIdempotent), dedupe.OutcomeUnknown)
		settle(t, claim, dedupe.Done, "ok")
		expect(t.Context(), t, there, refund(tool.NonIdempotent), dedupe.Replay)
	})
}

func TestASupersededOwnerIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.Keyed))
		w.down.Store(true)
		time.Sleep(32 * time.Second) // and not 31, when the renewal is tried once more
		w.down.Store(false)
		next := win(t, there, refund(tool.Keyed))
		if v, err := claim.Settle(t.Context(), dedupe.Settlement{State: dedupe.Done}); v != dedupe.Superseded || err != nil {
			t.Errorf("got %v, %v", v, err)
		}
		settle(t, next, dedupe.Done, "second")
		a := expect(t.Context(), t, here, refund(tool.Keyed), dedupe.Replay)
		if string(a.Record.Result) != "second" {
			t.Errorf("replayed %q", a.Record.Result)
		}
	})
}

// A claim that nobody settles must not be renewed for ever.
func TestALeakedClaimEnds(t *testing.T) {
	bubble(t, func(t *testing.T, _ *wire, here, there *dedupe.Dedupe) {
		a, claim, err := storetest.Admit(within(time.Minute), here, refund(tool.NonIdempotent))
		if err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		time.Sleep(89 * time.Second)
		if !claim.Held() {
			t.Error("given up before a lease has passed since the deadline")
		}
		time.Sleep(time.Minute)
		if claim.Held() {
			t.Error("never given up")
		}
		for _, d := range []*dedupe.Dedupe{here, there} {
			expect(t.Context(), t, d, refund(tool.NonIdempotent), dedupe.OutcomeUnknown)
		}
	})
}

func TestSettlementOutlivesAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		w.down.Store(true)
		go func() {
			time.Sleep(5 * time.Second)
			w.down.Store(false)
		}()
		settle(t, claim, dedupe.Done, "ok")
		expect(t.Context(), t, there, refund(tool.NonIdempotent), dedupe.Replay)
	})
}

func TestSettlementIsNotHeard(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		w.deaf.Store(true)
		go func() {
			time.Sleep(time.Second)
			w.deaf.Store(false)
		}()
		settle(t, claim, dedupe.Done, "ok") // the store had it all the time
		expect(t.Context(), t, there, refund(tool.NonIdempotent), dedupe.Replay)
	})
}

func TestSettlementGivesUpAndLetsWaitersGo(t *testing.T) {
	for name, c := range map[string]struct {
		ctx  func() context.Context
		want time.Duration
	}{
		"at the caller's deadline": {func() context.Context { return within(3 * time.Second) }, 3 * time.Second},
		"after a lease":            {context.Background, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
				claim := win(t, here, refund(tool.NonIdempotent))
				var waiter sync.WaitGroup
				waiter.Go(func() {
					if _, _, err := storetest.Admit(within(time.Hour), here, refund(tool.NonIdempotent)); !errors.Is(err, errDown) {
						t.Errorf("the waiter got %v, want the store's error", err)
					}
				})
				synctest.Wait()
				w.down.Store(true)
				before := time.Now()
				if _, err := claim.Settle(c.ctx(), dedupe.Settlement{State: dedupe.Done}); !errors.Is(err, errDown) {
					t.Errorf("got %v, want the store's error", err)
				}
				if took := time.Since(before); took != c.want {
					t.Errorf("gave up after %v, want %v", took, c.want)
				}
				waiter.Wait()
			})
		})
	}
}

// panicking is a store with a bug.
type panicking struct{ dedupe.Store }

func (panicking) Settle(context.Context, dedupe.Settlement) (dedupe.SettleVerdict, error) {
	panic("bug")
}

func TestAPanicAtSettlementLetsWaitersGo(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, _, _ *dedupe.Dedupe) {
		d := dedupe.New(panicking{w}, dedupe.Options{})
		claim := win(t, d, refund(tool.NonIdempotent))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_, err := claim.Settle(context.Background(), dedupe.Settlement{State: dedupe.Done})
			t.Errorf("settled: %v", err)
		}()
		expect(within(time.Hour), t, d, refund(tool.NonIdempotent), dedupe.OutcomeUnknown)
		if err := d.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestInvalidSettlementIsNotRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		claim := win(t, here, refund(tool.NonIdempotent))
		if _, err := claim.Settle(t.Context(), dedupe.Settlement{State: dedupe.Claimed}); !errors.Is(err, dedupe.ErrInvalid) {
			t.Errorf("got %v", err)
		}
		if got := w.settles.Load(); got != 1 {
			t.Errorf("asked %d times", got)
		}
	})
}

func TestAnUnheardClaimIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, there *dedupe.Dedupe) {
		w.deaf.Store(true)
		if _, claim, err := storetest.Admit(t.Context(), here, refund(tool.NonIdempotent)); !errors.Is(err, errDown) || claim != nil {
			t.Fatalf("got %v", err)
		}
		if got, _ := storetest.Lookup(t.Context(), w.Store, refund(0).Key); got.State != dedupe.Claimed {
			t.Fatalf("the store heard nothing: %v", got.State)
		}
		time.Sleep(3 * time.Second)
		w.deaf.Store(false)
		time.Sleep(2 * time.Second)
		next := win(t, there, refund(tool.NonIdempotent))
		if next.Record().Epoch != 2 {
			t.Errorf("epoch %d, want 2", next.Record().Epoch)
		}
		settle(t, next, dedupe.Done, "ok")
	})
}

// While the store is away its waiters all hear so at once; nothing piles up.
func TestAnOutageIsSharedByTheCrowd(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		w.down.Store(true)
		w.latency.Store(int64(time.Second))
		before := time.Now()
		var crowd sync.WaitGroup
		for range 50 {
			crowd.Go(func() {
				if _, _, err := storetest.Admit(t.Context(), here, refund(tool.NonIdempotent)); !errors.Is(err, errDown) {
					t.Errorf("got %v", err)
				}
			})
		}
		crowd.Wait()
		if took := time.Since(before); took != time.Second {
			t.Errorf("took %v, want one try", took)
		}
		w.latency.Store(0)
	})
}

func TestCloseWaitsForTheBackground(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire, here, _ *dedupe.Dedupe) {
		w.down.Store(true)
		if _, _, err := storetest.Admit(t.Context(), here, refund(tool.NonIdempotent)); err == nil {
			t.Fatal("admitted")
		}
		time.Sleep(time.Second)
		if err := here.Close(within(time.Second)); err != nil {
			t.Errorf("Close: %v", err)
		}
		// The bubble's end would find any goroutine left behind.
	})
}
