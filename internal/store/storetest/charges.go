package storetest

import (
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// charged is a request that counts in a tally of its owner, whose name has as many bytes as
// there may be.
func charged(id, owner string, effect tool.Effect, lease time.Duration) dedupe.Request {
	req := request(id, owner, effect, lease)
	counter := owner + every
	req.Draw.Counter = counter[:min(len(counter), dedupe.MaxCounterBytes)]
	return req
}

// charges: where a claim counts stands in its record, whatever becomes of it,
// until a later claim takes its place. What a person has denied counts nowhere.
func charges(s *suite) {
	want := func(when, id, want string) {
		s.Helper()
		if got := s.lookup(key(id)).Counter; got != want {
			s.Errorf("%s, it counts in %q, want %q", when, got, want)
		}
	}
	hers := charged("x", "alice", tool.NonIdempotent, long)
	if got := s.admit(hers).Record.Counter; got != hers.Draw.Counter {
		s.Errorf("won, it counts in %q", got)
	}
	want("claimed", "x", hers.Draw.Counter)
	if got := s.admit(charged("x", "bob", tool.NonIdempotent, long)); got.Record.Counter != hers.Draw.Counter {
		s.Errorf("a duplicate is told of %q", got.Record.Counter)
	}
	s.admit(hers)
	s.renew("x", "alice", 1, long)
	want("asked for again and renewed", "x", hers.Draw.Counter)
	s.settle(settlement("x", "alice", 1, dedupe.NotRun))
	want("given back", "x", hers.Draw.Counter)
	s.wantVerdict(s.admit(request("x", "bob", tool.NonIdempotent, long)), dedupe.Won)
	want("claimed by somebody who is charged nothing", "x", "")
	s.settle(settlement("x", "bob", 2, dedupe.Done))
	want("done", "x", "")

	lost := charged("lost", "alice", tool.NonIdempotent, s.lease)
	s.admit(lost)
	s.awaitState("lost", dedupe.Unknown)
	s.wantVerdict(s.admit(charged("lost", "bob", tool.NonIdempotent, long)), dedupe.OutcomeUnknown)
	want("unknown", "lost", lost.Draw.Counter)
	end := settlement("lost", "alice", 1, dedupe.NotRun)
	end.Resolves = true
	s.settle(end)
	want("resolved", "lost", lost.Draw.Counter)

	s.admit(charged("taken", "alice", tool.Keyed, s.lease))
	s.awaitState("taken", dedupe.NotRun)
	his := charged("taken", "bob", tool.Keyed, long)
	s.wantVerdict(s.admit(his), dedupe.Won)
	want("taken over", "taken", his.Draw.Counter)
	s.settle(settlement("taken", "bob", 2, dedupe.NotRun))
	s.wantVerdict(s.admit(charged("taken", "carol", tool.NonIdempotent, long)), dedupe.OutcomeUnknown)
	want("in doubt", "taken", his.Draw.Counter)

	asks := charged("denied", "alice", tool.NonIdempotent, long)
	s.admit(asks)
	s.settle(holds("denied", "alice"))
	want("held", "denied", asks.Draw.Counter)
	s.settle(decision("denied", "alice", 1, dedupe.Done))
	want("denied", "denied", "")
}

// fields: an optional field takes its effect.
func fields(s *suite) {
	check := func(field string, err error, honoured func() bool) {
		s.Helper()
		if err != nil || !honoured() {
			s.Errorf("%s was ignored: %v", field, err)
		}
	}
	req := charged("x", "alice", tool.NonIdempotent, s.lease)
	_, err := s.store.Admit(s.Context(), req)
	check("Draw.Counter", err, func() bool { return s.lookup(key("x")).Counter == req.Draw.Counter })

	req = drawn("drawn", dedupe.Draw{MaxCalls: 1})
	admission, err := s.store.Admit(s.Context(), req)
	check("Draw", err, func() bool { return admission.Tally.Calls == 1 })
	req = request("logged", "alice", tool.NonIdempotent, long)
	req.Logs = []string{"guard"}
	admission, err = s.store.Admit(s.Context(), req)
	check("Logs", err, func() bool { return len(admission.Logs) == 1 })
	spends := settlement("drawn", "alice", 1, dedupe.Done)
	spends.Tokens = 7
	_, err = s.store.Settle(s.Context(), spends)
	check("Tokens", err, func() bool { return s.tally("p-1").Estimated == 7 })
	appends := settlement("logged", "alice", 1, dedupe.Done)
	appends.Appends = []dedupe.Append{{Log: "guard", Entry: []byte("x"), Keep: 1}}
	_, err = s.store.Settle(s.Context(), appends)
	check("Appends", err, func() bool { return len(s.log("guard")) == 1 })

	s.admit(request("y", "alice", tool.NonIdempotent, s.lease))
	s.awaitState("y", dedupe.Unknown)
	end := settlement("y", "alice", 1, dedupe.NotRun)
	end.Resolves = true
	_, err = s.store.Settle(s.Context(), end)
	check("Resolves", err, func() bool { return s.lookup(key("y")).State == dedupe.NotRun })

	s.admit(request("z", "alice", tool.NonIdempotent, long))
	end = settlement("z", "alice", 1, dedupe.Done)
	end.Output = &dedupe.Output{Ref: "ref", Data: []byte("long"), Complete: true, TTL: time.Hour}
	_, err = s.store.Settle(s.Context(), end)
	check("Output", err, func() bool {
		kept, err := s.store.Output(s.Context(), "acme", "ref")
		return err == nil && string(kept.Data) == "long"
	})
}
