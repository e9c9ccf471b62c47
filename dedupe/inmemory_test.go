package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/transcript"
)

// carried runs a test with time of its own, a store, and a process that keeps
// late settlements in memory.
func carried(t *testing.T, max int64, f func(t *testing.T, w *wire, here *sidecar)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{Store: keeps{embedded.InMemory(embedded.Options{})}}
		log := &transcript.Transcript{}
		here := &sidecar{t: t, wire: w, log: log, Dedupe: dedupe.New(w, dedupe.Options{
			LateBytes: max, Log: slog.New(slog.NewJSONHandler(log, nil)),
		})}
		defer here.end()
		f(t, w, here)
	})
}

// tooLate settles a call with a store that does not take it in time.
func tooLate(t *testing.T, w *wire, claim *dedupe.Claim, s dedupe.Settlement) error {
	t.Helper()
	w.down.Store(true)
	s.Attempts = 1
	v, err := claim.Settle(within(5*time.Second), s)
	if err == nil && v != dedupe.Journaled {
		t.Errorf("it was told as %v", v)
	}
	return err
}

const plenty = 1 << 20

// A disk that stands still for longer than the store is waited for: the result
// reaches it when it goes on, also after the lease.
func TestASettlementThatIsLateIsNotLostWithoutAJournal(t *testing.T) {
	for name, away := range map[string]time.Duration{"within the lease": 10 * time.Second, "after the lease": 3 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			carried(t, plenty, func(t *testing.T, w *wire, here *sidecar) {
				call := refund(tool.NonIdempotent)
				claim := win(t, here.Dedupe, call)
				before := time.Now()
				if err := tooLate(t, w, claim, done("paid")); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(before); waited < 4*time.Second {
					t.Errorf("the store was given up after %v, for a place that is not safe", waited)
				}
				here.says(t, "ERROR", "settlement kept in memory", 1)
				if got := here.Late(); got != (dedupe.LateState{Waiting: 1, InMemory: true}) {
					t.Errorf("%+v", got)
				}
				a := expect(t.Context(), t, here.Dedupe, call, dedupe.Replay)
				if string(a.Record.Result) != "paid" || !a.Journaled {
					t.Errorf("a duplicate meanwhile: %q, journaled %t", a.Record.Result, a.Journaled)
				}
				time.Sleep(away)
				w.down.Store(false)
				back := time.Now()
				stored(t, w, call, dedupe.Done, "paid")
				if took := time.Since(back); took > 5*time.Second {
					t.Errorf("it was brought only after %v", took)
				}
				synctest.Wait()
				if got := here.Late(); got != (dedupe.LateState{Replayed: 1, InMemory: true}) {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// What a process still has in memory when it ends is brought, or said to be lost.
func TestAProcessEndsWithASettlementInMemory(t *testing.T) {
	for name, down := range map[string]bool{"the store is back": false, "the store is down": true} {
		t.Run(name, func(t *testing.T) {
			carried(t, plenty, func(t *testing.T, w *wire, here *sidecar) {
				call := refund(tool.NonIdempotent)
				if err := tooLate(t, w, win(t, here.Dedupe, call), done("paid")); err != nil {
					t.Fatal(err)
				}
				w.down.Store(down)
				here.end()
				w.down.Store(false)
				lost, want := 0, dedupe.Done
				if down {
					lost, want = 1, dedupe.Claimed
				}
				here.says(t, "ERROR", "settlement lost", lost)
				if r, err := storetest.Lookup(t.Context(), w.Store, call.Key); err != nil || r.State != want {
					t.Errorf("the store has %v, %v", r.State, err)
				}
				if strings.Contains(here.log.String(), "paid") {
					t.Error("the result is in the log")
				}
			})
		})
	}
}

// The memory is bounded: outputs give way to results, and what does not fit is
// said to be lost.
func TestWhatIsKeptInMemoryIsBounded(t *testing.T) {
	const room = 7
	carried(t, room*5<<10, func(t *testing.T, w *wire, here *sidecar) {
		const calls = 20
		var claims []*dedupe.Claim
		for i := range calls {
			call := refund(tool.NonIdempotent)
			call.Key.ID = fmt.Sprint(i)
			claims = append(claims, win(t, here.Dedupe, call))
		}
		kept := 0
		for i, claim := range claims {
			s := done("paid")
			s.Output = &dedupe.Output{Ref: fmt.Sprint(i), Data: make([]byte, 64<<10), TTL: time.Hour}
			switch err := tooLate(t, w, claim, s); {
			case err == nil:
				kept++
			case !errors.Is(err, dedupe.ErrFull):
				t.Fatal(err)
			}
		}
		here.says(t, "ERROR", `"dropped_output_bytes":65536`, calls)
		here.says(t, "ERROR", "settlement lost", calls-kept)
		if got := here.Late(); kept < room || kept > room+2 || got.Waiting != kept || int(got.Lost) != calls-kept {
			t.Errorf("%d kept: %+v", kept, got)
		}
		w.down.Store(false)
		call := refund(tool.NonIdempotent)
		call.Key.ID = "0"
		stored(t, w, call, dedupe.Done, "paid")
	})
}

// A store that has failed does not come back: nothing is kept for it.
func TestNothingIsKeptForAStoreThatHasFailed(t *testing.T) {
	carried(t, plenty, func(t *testing.T, w *wire, here *sidecar) {
		claim := win(t, here.Dedupe, refund(tool.NonIdempotent))
		w.Store = fails{w.Store}
		before := time.Now()
		var failed *dedupe.FailedError
		if _, err := claim.Settle(within(5*time.Second), done("paid")); !errors.As(err, &failed) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(before); waited > 0 {
			t.Errorf("it was asked for %v", waited)
		}
		here.says(t, "ERROR", "settlement lost", 1)
	})
}

// fails is a store that has failed.
type fails struct{ dedupe.Store }

func (fails) Settle(context.Context, dedupe.Settlement) (dedupe.SettleVerdict, error) {
	return 0, &dedupe.FailedError{File: "calls.db", Cause: errors.New("its file was removed")}
}
