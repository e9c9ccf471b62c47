package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

// charged is a request with charges, and with as many bytes in them as there may
// be.
func charged(id, owner string, effect tool.Effect, lease time.Duration) dedupe.Request {
	req := request(id, owner, effect, lease)
	for i := range dedupe.MaxCharges {
		counter := string(rune('a'+i)) + owner + every
		req.Charges = append(req.Charges, dedupe.Charge{Counter: counter[:min(len(counter), dedupe.MaxCounterBytes)], Amount: dedupe.MaxAmount - int64(i)})
	}
	return req
}

// charges: what a claim was charged stands in its record, whatever becomes of it,
// until a later claim takes its place.
func charges(s *suite) {
	want := func(when, id string, want []dedupe.Charge) {
		s.Helper()
		if diff := cmp.Diff(want, s.lookup(key(id)).Charges); diff != "" {
			s.Errorf("%s, other charges: %s", when, diff)
		}
	}
	hers := charged("x", "alice", tool.NonIdempotent, long)
	if diff := cmp.Diff(hers.Charges, s.admit(hers).Record.Charges); diff != "" {
		s.Errorf("won with other charges: %s", diff)
	}
	want("claimed", "x", hers.Charges)
	if got := s.admit(charged("x", "bob", tool.NonIdempotent, long)); !cmp.Equal(got.Record.Charges, hers.Charges) {
		s.Errorf("a duplicate is told of %v", got.Record.Charges)
	}
	s.admit(hers)
	s.renew("x", "alice", 1, long)
	want("asked for again and renewed", "x", hers.Charges)
	s.settle(settlement("x", "alice", 1, dedupe.NotRun))
	want("given back", "x", hers.Charges)
	s.wantVerdict(s.admit(request("x", "bob", tool.NonIdempotent, long)), dedupe.Won)
	want("claimed by somebody who is charged nothing", "x", nil)
	s.settle(settlement("x", "bob", 2, dedupe.Done))
	want("done", "x", nil)

	lost := charged("lost", "alice", tool.NonIdempotent, s.lease)
	s.admit(lost)
	s.awaitState("lost", dedupe.Unknown)
	s.wantVerdict(s.admit(charged("lost", "bob", tool.NonIdempotent, long)), dedupe.OutcomeUnknown)
	want("unknown", "lost", lost.Charges)
	end := settlement("lost", "alice", 1, dedupe.NotRun)
	end.Resolves = true
	s.settle(end)
	want("resolved", "lost", lost.Charges)

	s.admit(charged("taken", "alice", tool.Keyed, s.lease))
	s.awaitState("taken", dedupe.NotRun)
	his := charged("taken", "bob", tool.Keyed, long)
	s.wantVerdict(s.admit(his), dedupe.Won)
	want("taken over", "taken", his.Charges)
	s.settle(settlement("taken", "bob", 2, dedupe.NotRun))
	s.wantVerdict(s.admit(charged("taken", "carol", tool.NonIdempotent, long)), dedupe.OutcomeUnknown)
	want("in doubt", "taken", his.Charges)
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
	check("Charges", err, func() bool { return cmp.Equal(s.lookup(key("x")).Charges, req.Charges) })

	req = drawn("drawn", dedupe.Draw{MaxCalls: 1})
	admission, err := s.store.Admit(s.Context(), req)
	check("Draw", err, func() bool { return admission.Tally.Calls == 1 })
	req = request("logged", "alice", tool.NonIdempotent, long)
	req.Logs = []string{"guard"}
	admission, err = s.store.Admit(s.Context(), req)
	check("Logs", err, func() bool { return len(admission.Logs) == 1 })
	spends := settlement("drawn", "alice", 1, dedupe.Done)
	spends.Spend = dedupe.Spend{Counter: "p-1", Tokens: 7}
	_, err = s.store.Settle(s.Context(), spends)
	check("Spend", err, func() bool { return s.tally("p-1").Estimated == 7 })
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
