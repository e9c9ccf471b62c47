package dedupe_test

import (
	"context"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// around is a settlement with what it tells the loop around the call.
func around(s dedupe.Settlement, entries int) dedupe.Settlement {
	s.Attempts, s.Spend = 1, dedupe.Spend{Counter: "p-1", Tokens: 9}
	for range entries {
		s.Appends = append(s.Appends, dedupe.Append{Log: "guard", Entry: []byte("x"), Keep: 9})
	}
	return s
}

// remembered is what the loop finds: the tokens of p-1, and the entries of guard.
func remembered(t *testing.T, w *wire, key dedupe.Key) (tokens int64, entries int) {
	t.Helper()
	noted, err := w.Note(t.Context(), dedupe.Note{Key: key, Counter: "p-1", Logs: []string{"guard"}, Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return noted.Tally.Tokens(), len(noted.Logs[0])
}

// What became of a call matters more than what the loop around it remembers.
func TestWhatIsOnlyOfUseToTheLoopKeepsNothingFromBeingSettled(t *testing.T) {
	for name, c := range map[string]struct {
		down    bool
		entries int
		tokens  int64
		found   int
		errors  int
	}{
		"taken":                   {false, 1, 9, 1, 0},
		"late, through a journal": {true, 1, 0, 0, 0},
		"more than a store takes": {false, dedupe.MaxLogs + 1, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			carried(t, plenty, func(t *testing.T, w *wire, here *sidecar) {
				call := refund(tool.NonIdempotent)
				call.Key.Conversation = "c-1"
				call.Charges = []dedupe.Charge{{Counter: "p-1", Amount: 1}}
				claim := win(t, here.Dedupe, call)
				w.down.Store(c.down)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if _, err := claim.Settle(ctx, around(done("paid"), c.entries)); err != nil {
					t.Fatal(err)
				}
				w.down.Store(false)
				stored(t, w, call, dedupe.Done, "paid")
				if tokens, found := remembered(t, w, call.Key); tokens != c.tokens || found != c.found {
					t.Errorf("%d tokens and %d entries, want %d and %d", tokens, found, c.tokens, c.found)
				}
				here.says(t, "ERROR", "what no store takes is not kept", c.errors)
			})
		})
	}
}
