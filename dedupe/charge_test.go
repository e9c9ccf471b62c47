package dedupe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/tool"
)

// What a transition gives back, and what it charges, for every transition that
// the state machine makes.
func TestRefund(t *testing.T) {
	t.Parallel()
	hers, his := []Charge{{"prompt", 3}, {"session", 1}}, []Charge{{"prompt", 5}}
	ask := func(owner string, effect tool.Effect, charges []Charge) Request {
		req := asks(owner, effect)
		req.Charges = charges
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
	renewed, _ := fragile.Renew("alice", 1, time.Hour, live)
	for name, c := range map[string]struct {
		from, to          Record
		givenBack, charge []Charge
	}{
		"a claim":                       {Record{}, fragile, nil, hers},
		"asked again by its owner":      {fragile, admit(fragile, ask("alice", tool.NonIdempotent, his), live), nil, nil},
		"a duplicate":                   {fragile, admit(fragile, ask("bob", tool.NonIdempotent, his), live), nil, nil},
		"renewed":                       {fragile, renewed, nil, nil},
		"done":                          {fragile, settle(fragile, settles("alice", 1, Done)), nil, nil},
		"not run":                       {fragile, notRun, hers, nil},
		"a claim given back unheard":    {fragile, settle(fragile, settles("alice", 0, NotRun)), hers, nil},
		"unknown":                       {fragile, unknown, nil, nil},
		"found unknown, its lease over": {fragile, admit(fragile, ask("bob", tool.NonIdempotent, his), lapsed), nil, nil},
		"a late owner knows":            {unknown, settle(unknown, settles("alice", 1, Done)), nil, nil},
		"resolved as done":              {unknown, settle(unknown, resolution(Done)), nil, nil},
		"resolved as not run":           {unknown, settle(unknown, resolution(NotRun)), hers, nil},
		"an expired repeatable claim is taken over": {repeatable, admit(repeatable, ask("bob", tool.Keyed, his), lapsed), hers, his},
		"claimed again after it did not run":        {notRun, admit(notRun, ask("bob", tool.NonIdempotent, his), lapsed), nil, his},
		"resolved as not run, and it had run":       {notRun, settle(notRun, settles("alice", 1, Done)), nil, hers},
		"not run, as a tool that must not repeat":   {perhaps, perhaps, nil, nil},
		"taken for not run, and it may have run":    {perhaps, admit(perhaps, ask("bob", tool.NonIdempotent, his), lapsed), nil, hers},
		"nothing":                                   {Record{}, Record{}, nil, nil},
	} {
		if diff := cmp.Diff(c.givenBack, c.from.Refund(c.to)); diff != "" {
			t.Errorf("%s gives back: %s", name, diff)
		}
		if diff := cmp.Diff(c.charge, c.to.Refund(c.from)); diff != "" {
			t.Errorf("%s charges: %s", name, diff)
		}
	}
}
