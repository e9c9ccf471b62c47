package dedupe_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// around is a settlement with what it tells the loop around the call.
func around(s dedupe.Settlement, entries int) dedupe.Settlement {
	s.Attempts, s.Tokens = 1, 9
	for range entries {
		s.Appends = append(s.Appends, dedupe.Append{Log: "guard", Entry: []byte("x"), Keep: 9})
	}
	return s
}

// remembered is what the loop finds: the tokens of p-1, and the entries of guard.
func remembered(t *testing.T, w *wire, key tool.CallID) (tokens int64, entries int) {
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
				call.Draw.Counter = "p-1"
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

// A ceiling is no answer to the next request for the same call: its own may be
// higher.
func TestACeilingIsNoAnswerToOthers(t *testing.T) {
	carried(t, plenty, func(t *testing.T, w *wire, here *sidecar) {
		call := refund(tool.NonIdempotent)
		call.Draw = dedupe.Draw{Counter: "p-1", MaxCalls: 1}
		other := call
		other.Key.ID = "before"
		win(t, here.Dedupe, other)
		if a := expect(t.Context(), t, here.Dedupe, call, dedupe.Exceeded); a.Ceiling != dedupe.CallsCeiling {
			t.Errorf("exceeded %v", a.Ceiling)
		}
		call.Draw.MaxCalls = 2
		win(t, here.Dedupe, call)
	})
}

// What is refused is noted once for a call that nobody knows, and answered from the
// record where there is one.
func TestARefusalIsNotedWithTheFirstLook(t *testing.T) {
	carried(t, plenty, func(t *testing.T, w *wire, here *sidecar) {
		call := refund(tool.NonIdempotent)
		call.Draw.Counter = "p-1"
		note := dedupe.Note{Key: call.Key, Counter: "p-1", Logs: []string{"guard"},
			Appends: []dedupe.Append{{Log: "guard", Entry: []byte("invalid"), Keep: 9}}}
		look := func(state dedupe.State, entries int) {
			t.Helper()
			known, err := here.Known(t.Context(), note)
			if err == nil && known.Record.State == dedupe.Claimed {
				known, err = here.Await(t.Context(), call.Key, known)
			}
			if err != nil || known.Record.State != state || len(known.Logs[0]) != entries {
				t.Errorf("got %v with %q, %v; want %v with %d entries", known.Record.State, known.Logs, err, state, entries)
			}
		}
		look(dedupe.Absent, 1)
		claim := win(t, here.Dedupe, call)
		go func() {
			time.Sleep(time.Second)
			if _, err := claim.Settle(context.Background(), done("paid")); err != nil {
				t.Error(err)
			}
		}()
		look(dedupe.Done, 1)
		w.down.Store(true)
		if _, err := here.Known(t.Context(), note); err == nil {
			t.Error("a store that is down knows the call")
		}
	})
}

// The seats of a call are its own: what waits says so in its answer, and nothing in
// this package calls back to have them exchanged.
func TestNothingCallsBack(t *testing.T) {
	for _, of := range []reflect.Type{reflect.TypeFor[*dedupe.Dedupe](), reflect.TypeFor[*dedupe.Ticket](), reflect.TypeFor[*dedupe.Claim]()} {
		for method := range of.Methods() {
			for in := range method.Type.Ins() {
				if in.Kind() == reflect.Func {
					t.Errorf("%v.%s is given a %v", of, method.Name, in)
				}
			}
		}
	}
}
