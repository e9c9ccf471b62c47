package dedupe

import (
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// What a transition gives back, and what it charges, for every transition that
// the state machine makes.
func TestMoves(t *testing.T) {
	t.Parallel()
	const hers, his = "of alice", "of bob"
	ask := func(owner string, effect tool.Effect, counter string) Request {
		req := asks(owner, effect)
		req.Draw.Counter = counter
		return req
	}
	claimed := func(effect tool.Effect) Record {
		r, _, _ := Record{}.Admit(ask("alice", effect, hers), start)
		return r
	}
	settle := func(r Record, s Settlement) Record {
		next, verdict, _ := r.Settle(s, live)
		if verdict != Settled {
			t.Fatalf("%v was not settled as %v", r.State, s.State)
		}
		return next
	}
	admit := func(r Record, req Request, now time.Time) Record {
		next, _, _ := r.Admit(req, now)
		return next
	}
	resolution := func(state State) Settlement {
		s := settles("alice", 1, state)
		s.Resolves = true
		return s
	}
	fragile, repeatable := claimed(tool.NonIdempotent), claimed(tool.Keyed)
	unknown, notRun := settle(fragile, settles("alice", 1, Unknown)), settle(fragile, settles("alice", 1, NotRun))
	perhaps := settle(repeatable, settles("alice", 1, NotRun))
	renewed, _ := fragile.Renew(&Renewal{Claim: Origin{Record: fragile}, Lease: time.Hour}, live)
	for name, c := range map[string]struct {
		from, to          Record
		givenBack, charge string
	}{
		"a claim":                       {Record{}, fragile, "", hers},
		"asked again by its owner":      {fragile, admit(fragile, ask("alice", tool.NonIdempotent, his), live), "", ""},
		"a duplicate":                   {fragile, admit(fragile, ask("bob", tool.NonIdempotent, his), live), "", ""},
		"renewed":                       {fragile, renewed, "", ""},
		"done":                          {fragile, settle(fragile, settles("alice", 1, Done)), "", ""},
		"not run":                       {fragile, notRun, hers, ""},
		"a claim given back unheard":    {fragile, settle(fragile, settles("alice", 0, NotRun)), hers, ""},
		"unknown":                       {fragile, unknown, "", ""},
		"found unknown, its lease over": {fragile, admit(fragile, ask("bob", tool.NonIdempotent, his), lapsed), "", ""},
		"a late owner knows":            {unknown, settle(unknown, settles("alice", 1, Done)), "", ""},
		"resolved as done":              {unknown, settle(unknown, resolution(Done)), "", ""},
		"resolved as not run":           {unknown, settle(unknown, resolution(NotRun)), hers, ""},
		"an expired repeatable claim is taken over": {repeatable, admit(repeatable, ask("bob", tool.Keyed, his), lapsed), hers, his},
		"claimed again after it did not run":        {notRun, admit(notRun, ask("bob", tool.NonIdempotent, his), lapsed), "", his},
		"resolved as not run, and it had run":       {notRun, settle(notRun, settles("alice", 1, Done)), "", hers},
		"not run, as a tool that must not repeat":   {perhaps, perhaps, "", ""},
		"taken for not run, and it may have run":    {perhaps, admit(perhaps, ask("bob", tool.NonIdempotent, his), lapsed), "", hers},
		"nothing":                                   {Record{}, Record{}, "", ""},
	} {
		if back, made := c.from.Moves(c.to); back != c.givenBack || made != c.charge {
			t.Errorf("%s: gives back to %q and counts in %q, want %q and %q", name, back, made, c.givenBack, c.charge)
		}
	}
}
