package dedupe_test

import (
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

func paying(id string) dedupe.Request {
	return dedupe.Request{
		Key: tool.CallID{Conversation: "c-1", ID: id}, Tool: "pay", Effect: tool.NonIdempotent, Fingerprint: [32]byte{1},
		EffectKey: dedupe.EffectKey{Print: [32]byte{7}, Window: time.Hour},
	}
}

// ends settles a claim which the store hears of.
func ends(t *testing.T, claim *dedupe.Claim, s dedupe.Settlement) {
	t.Helper()
	if v, err := claim.Settle(t.Context(), s); err != nil || v != dedupe.Settled {
		t.Fatalf("not settled: %v, %v", v, err)
	}
}

// That a call has provably not had its effect is part of what became of it, however late the store hears so.
func TestALateSettlementFreesItsEffect(t *testing.T) {
	t.Parallel()
	journaledNow(t, func(t *testing.T, w *wire, here *sidecar, there *dedupe.Dedupe) {
		a := paying("a")
		claim := win(t, here.Dedupe, a)
		declined := done("declined")
		declined.Frees = a.EffectKey
		settleLate(t, w, claim, declined)
		w.down.Store(false)
		stored(t, w, a, dedupe.Done, "declined")
		ends(t, win(t, there, paying("b")), dedupe.Settlement{State: dedupe.NotRun})
	})
}

// A call that is held holds no effect, whether it was before its claim or after it: once it is denied
// nobody has had it.
func TestADeniedCallHoldsNoEffect(t *testing.T) {
	t.Parallel()
	for name, claimed := range map[string]bool{"before its claim": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			journaledNow(t, func(t *testing.T, _ *wire, here *sidecar, there *dedupe.Dedupe) {
				a := paying("a")
				if claimed {
					ends(t, win(t, here.Dedupe, a), dedupe.Settlement{State: dedupe.Held, HoldFor: time.Hour, Result: []byte("asked")})
				} else {
					a.Hold = &dedupe.Hold{For: time.Hour, Result: []byte("asked")}
					expect(t.Context(), t, here.Dedupe, a, dedupe.AwaitsApproval)
				}
				known, err := here.Known(t.Context(), dedupe.Note{Key: a.Key})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := here.Resolve(t.Context(), dedupe.Listed{Key: a.Key, Record: known.Record}, dedupe.Done, []byte("denied")); err != nil {
					t.Fatal(err)
				}
				ends(t, win(t, there, paying("b")), dedupe.Settlement{State: dedupe.NotRun})
			})
		})
	}
}

// A further round that did not run leaves the effect with the one it went on with.
func TestARoundThatDidNotRunFreesNothingOfTheFirst(t *testing.T) {
	t.Parallel()
	journaledNow(t, func(t *testing.T, _ *wire, here *sidecar, there *dedupe.Dedupe) {
		x, again := paying("x"), paying("x#1")
		asked := done("it asks for input")
		asked.Attempts = 1
		ends(t, win(t, here.Dedupe, x), asked)
		expect(t.Context(), t, here.Dedupe, again, dedupe.DuplicateEffect)
		again.After = []tool.CallID{x.Key}
		ends(t, win(t, here.Dedupe, again), dedupe.Settlement{State: dedupe.NotRun, Attempts: 1})
		expect(t.Context(), t, there, paying("y"), dedupe.DuplicateEffect)
	})
}
