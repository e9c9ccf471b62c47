package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// payment is the effect that the calls here have.
var payment = dedupe.EffectKey{Print: [32]byte{7}, Window: retention}

// pays is a request of an owner named like its id for a call that has that effect.
func pays(id string, effect tool.Effect) dedupe.Request {
	req := request(id, "owner of "+id, effect, long)
	req.EffectKey = payment
	return req
}

func allowed(req dedupe.Request) dedupe.Request {
	req.EffectKey.Allow = true
	return req
}

// paid is how such a call ends.
func paid(id string, epoch int64, state dedupe.State) dedupe.Settlement {
	return settlement(id, "owner of "+id, epoch, state)
}

func freed(s dedupe.Settlement) dedupe.Settlement {
	s.Frees = payment
	return s
}

func resolved(s dedupe.Settlement) dedupe.Settlement {
	s.Resolves = true
	return s
}

// earlier is what has become of a call, "a", and what that means for its effect.
type earlier struct {
	name   string
	effect tool.Effect
	// make brings the call there.
	make func(*suite)
	// same is the answer to another request for it, other to one under another id.
	same, other dedupe.Verdict
	// by is the owner who asks for it under another id; any other one when empty.
	by string
}

// pay claims "a" and settles it, if there is a way to.
func pay(effect tool.Effect, ends ...dedupe.Settlement) func(*suite) {
	return func(s *suite) {
		s.wantVerdict(s.admit(pays("a", effect)), dedupe.Won)
		for _, end := range ends {
			if got := s.settle(end); got != dedupe.Settled {
				s.Fatalf("settled as %v: %v", end.State, got)
			}
		}
	}
}

// abandon claims "a" and lets its lease run out.
func abandon(effect tool.Effect, seen dedupe.State) func(*suite) {
	return func(s *suite) {
		req := pays("a", effect)
		req.Lease = s.lease
		s.wantVerdict(s.admit(req), dedupe.Won)
		s.awaitState("a", seen)
	}
}

func unsent(s dedupe.Settlement) dedupe.Settlement {
	s.Attempts = 0
	return s
}

// heldPayment ends a claim of which a person is asked first, and which holds its effect.
func heldPayment(id string) dedupe.Settlement {
	s := late(holds(id, "owner of "+id), tool.NonIdempotent)
	s.Claim.EffectKey = payment
	return s
}

var earliers = []earlier{
	{"never asked for", tool.NonIdempotent, func(*suite) {}, dedupe.Won, dedupe.Won, ""},
	{"at work", tool.NonIdempotent, pay(tool.NonIdempotent), dedupe.InFlight, dedupe.EffectInFlight, ""},
	{"lease out", tool.NonIdempotent, abandon(tool.NonIdempotent, dedupe.Unknown), dedupe.OutcomeUnknown, dedupe.EffectUnknown, ""},
	{"lease out, keyed", tool.Keyed, abandon(tool.Keyed, dedupe.NotRun), dedupe.Won, dedupe.EffectUnknown, ""},
	{"lease out, idempotent", tool.Idempotent, abandon(tool.Idempotent, dedupe.NotRun), dedupe.Won, dedupe.Won, ""},
	{"done", tool.NonIdempotent, pay(tool.NonIdempotent, paid("a", 1, dedupe.Done)), dedupe.Replay, dedupe.DuplicateEffect, ""},
	{"done, keyed", tool.Keyed, pay(tool.Keyed, paid("a", 1, dedupe.Done)), dedupe.Replay, dedupe.DuplicateEffect, ""},
	{"done, idempotent", tool.Idempotent, pay(tool.Idempotent, paid("a", 1, dedupe.Done)), dedupe.Replay, dedupe.DuplicateEffect, ""},
	{"done without the effect", tool.NonIdempotent, pay(tool.NonIdempotent, freed(paid("a", 1, dedupe.Done))), dedupe.Replay, dedupe.Won, ""},
	{"said twice to be without it", tool.NonIdempotent, pay(tool.NonIdempotent, freed(paid("a", 1, dedupe.Done)), freed(paid("a", 1, dedupe.Done))), dedupe.Replay, dedupe.Won, ""},
	{"unknown", tool.NonIdempotent, pay(tool.NonIdempotent, paid("a", 1, dedupe.Unknown)), dedupe.OutcomeUnknown, dedupe.EffectUnknown, ""},
	{"unknown, then its owner knows", tool.NonIdempotent, pay(tool.NonIdempotent, paid("a", 1, dedupe.Unknown), paid("a", 1, dedupe.Done)), dedupe.Replay, dedupe.DuplicateEffect, ""},
	{"resolved as done", tool.NonIdempotent, pay(tool.NonIdempotent, paid("a", 1, dedupe.Unknown), resolved(paid("a", 1, dedupe.Done))), dedupe.Replay, dedupe.DuplicateEffect, ""},
	{"resolved as not run", tool.NonIdempotent, pay(tool.NonIdempotent, paid("a", 1, dedupe.Unknown), resolved(paid("a", 1, dedupe.NotRun))), dedupe.Won, dedupe.Won, ""},
	{"not run", tool.NonIdempotent, pay(tool.NonIdempotent, paid("a", 1, dedupe.NotRun)), dedupe.Won, dedupe.Won, ""},
	{"not run, and yet it did", tool.NonIdempotent, pay(tool.NonIdempotent, paid("a", 1, dedupe.NotRun), paid("a", 1, dedupe.Done)), dedupe.Replay, dedupe.DuplicateEffect, ""},
	{"given back unheard", tool.Keyed, pay(tool.Keyed, unsent(paid("a", 0, dedupe.NotRun))), dedupe.Won, dedupe.Won, ""},
	{"may run again, keyed", tool.Keyed, pay(tool.Keyed, paid("a", 1, dedupe.NotRun)), dedupe.Won, dedupe.EffectUnknown, ""},
	{"provably not run, keyed", tool.Keyed, pay(tool.Keyed, freed(paid("a", 1, dedupe.NotRun))), dedupe.Won, dedupe.Won, ""},
	{"may run again, idempotent", tool.Idempotent, pay(tool.Idempotent, paid("a", 1, dedupe.NotRun)), dedupe.Won, dedupe.Won, ""},
	{"held after its claim, then denied", tool.NonIdempotent, pay(tool.NonIdempotent, heldPayment("a"), decision("a", "owner of a", 1, dedupe.Done)), dedupe.Replay, dedupe.Won, ""},
	{"of an incarnation that is gone", tool.NonIdempotent, func(s *suite) {
		req := pays("a", tool.NonIdempotent)
		req.Owner = "@shop@1.x"
		s.wantVerdict(s.admit(req), dedupe.Won)
	}, dedupe.InFlight, dedupe.EffectUnknown, "@shop@2.y"},
	{"of the incarnation that asks", tool.NonIdempotent, func(s *suite) {
		req := pays("a", tool.NonIdempotent)
		req.Owner = "@shop@2.x"
		s.wantVerdict(s.admit(req), dedupe.Won)
	}, dedupe.InFlight, dedupe.EffectInFlight, "@shop@2.y"},
}

// effectOnce: what has become of a call, and what a request under another id is told.
// Each row has a conversation of its own.
func effectOnce(s *suite) {
	for i, e := range earliers {
		s.of(fmt.Sprintf("row-%d", i), func(s *suite) {
			e.make(s)
			before := s.lookup(key("a"))
			his := pays("b", e.effect)
			if e.by != "" {
				his.Owner = e.by
			}
			got := s.admit(his)
			if got.Verdict != e.other {
				s.Errorf("%s: under another id %v, want %v", e.name, got.Verdict, e.other)
			}
			if e.other != dedupe.Won {
				s.wantEarlier(e.name, got, "a", before)
				if r := s.lookup(key("b")); r.State != dedupe.Absent {
					s.Errorf("%s: a refused call is %v", e.name, r.State)
				}
				s.wantVerdict(s.admit(allowed(his)), dedupe.Won)
			}
		})
		s.of(fmt.Sprintf("same-%d", i), func(s *suite) {
			e.make(s)
			his := pays("a", e.effect)
			his.Owner = "somebody else"
			if got := s.admit(his); got.Verdict != e.same {
				s.Errorf("%s: under its own id %v, want %v", e.name, got.Verdict, e.same)
			}
		})
	}
}

// of runs part of a case in a conversation of its own.
func (s *suite) of(conversation string, run func(*suite)) {
	s.Helper()
	run(&suite{T: s.T, lease: s.lease, store: inConversation{s.store, conversation}})
}

// wantEarlier compares what is told of the call that stands in the way.
func (s *suite) wantEarlier(when string, got dedupe.Admission, id string, before dedupe.Record) {
	s.Helper()
	if got.Earlier.ID != id {
		s.Errorf("%s: the earlier call is %q, want %q", when, got.Earlier.ID, id)
	}
	if got.Record.Owner != before.Owner || got.Record.Epoch != before.Epoch || string(got.Record.Result) != string(before.Result) {
		s.Errorf("%s: got %+v of it, want %+v", when, got.Record, before)
	}
}

// effectAllowed: a call that was allowed holds the effect beside those before it.
func effectAllowed(s *suite) {
	s.admit(pays("a", tool.NonIdempotent))
	s.settle(paid("a", 1, dedupe.Done))
	s.wantVerdict(s.admit(allowed(pays("b", tool.NonIdempotent))), dedupe.Won)
	s.wantVerdict(s.admit(pays("c", tool.NonIdempotent)), dedupe.DuplicateEffect)
	s.of("lost", func(s *suite) { // whoever did not hear the answer has its claim, whoever was allowed since
		s.wantVerdict(s.admit(pays("a", tool.NonIdempotent)), dedupe.Won)
		s.wantVerdict(s.admit(allowed(pays("b", tool.NonIdempotent))), dedupe.Won)
		s.wantVerdict(s.admit(pays("a", tool.NonIdempotent)), dedupe.Won)
	})

	// b did not run: there is still the first.
	s.settle(freed(paid("b", 1, dedupe.NotRun)))
	got := s.admit(pays("c", tool.NonIdempotent))
	s.wantVerdict(got, dedupe.DuplicateEffect)
	s.wantEarlier("after one that did not run", got, "a", s.lookup(key("a")))
	again := pays("b", tool.NonIdempotent)
	again.Owner = "another"
	got = s.admit(again)
	s.wantVerdict(got, dedupe.DuplicateEffect)
	s.wantEarlier("asked again under an id that did not run", got, "a", s.lookup(key("a")))

	s.wantVerdict(s.admit(allowed(again)), dedupe.Won)
	end := paid("b", 2, dedupe.Done)
	end.Owner = "another"
	s.settle(end)
	got = s.admit(pays("c", tool.NonIdempotent))
	s.wantVerdict(got, dedupe.DuplicateEffect)
	s.wantEarlier("after one that was allowed", got, "b", s.lookup(key("b")))
}

// effectHolders: as many calls as may hold an effect are allowed to.
func effectHolders(s *suite) {
	for i := range dedupe.MaxHolders {
		s.wantVerdict(s.admit(allowed(pays(fmt.Sprint(i), tool.NonIdempotent))), dedupe.Won)
	}
	s.wantVerdict(s.admit(allowed(pays("one more", tool.NonIdempotent))), dedupe.EffectInFlight)
	s.settle(paid("0", 1, dedupe.NotRun))
	s.wantVerdict(s.admit(allowed(pays("one more", tool.NonIdempotent))), dedupe.Won)
	s.settle(paid("1", 1, dedupe.Done))
	got := s.admit(pays("another", tool.NonIdempotent))
	s.wantVerdict(got, dedupe.DuplicateEffect)
	s.wantEarlier("one done of many", got, "1", s.lookup(key("1")))
}

// effectWindow: the window begins when the call ends, however long after its claim
// that is, and is over when it is over.
func effectWindow(s *suite) {
	short := func(id string) dedupe.Request {
		req := pays(id, tool.NonIdempotent)
		req.Lease = s.lease
		req.Retention, req.EffectKey.Window = 4*s.lease, 4*s.lease
		return req
	}
	// lasts lets a call take nearly as long as one may. On a machine that stood still
	// meanwhile its claim is forgotten, and shows nothing.
	lasts := func(id string, end dedupe.Settlement) bool {
		s.wantVerdict(s.admit(short(id)), dedupe.Won)
		for range 3 {
			if !s.renew(id, end.Owner, 1, long) {
				return false
			}
			time.Sleep(s.lease)
		}
		return s.settle(end) == dedupe.Settled
	}
	for i, shown := 0, 0; shown < 3; i++ {
		if i == 20 {
			s.Fatal("no call was remembered for as long as it took, or none was in time")
		}
		id, end := fmt.Sprint(i), paid(fmt.Sprint(i), 1, dedupe.Done)
		end.Retention = retention
		if !lasts(id, end) {
			continue
		}
		record := s.lookup(key(id))
		ended := record.FinishedAt
		if ended.Sub(record.StartedAt) > 4*s.lease {
			continue // renewed for longer than a call may take: see EffectKey.Keep
		}
		shown++
		var won dedupe.Admission
		s.await("the window is over", func() bool {
			won = s.admit(short("after " + id))
			return won.Verdict == dedupe.Won
		})
		if waited := won.Record.StartedAt.Sub(ended); waited < 4*s.lease {
			s.Errorf("the effect was had again %v after it ended, want %v", waited, 4*s.lease)
		}
		s.settle(paid("after "+id, 1, dedupe.NotRun))
	}
	// Nobody knows for ever: what may have happened has happened by then.
	s.wantVerdict(s.admit(pays("lost", tool.NonIdempotent)), dedupe.Won)
	s.settle(paid("lost", 1, dedupe.Unknown))
	s.wantVerdict(s.admit(pays("later", tool.NonIdempotent)), dedupe.EffectUnknown)
	s.await("the window of what nobody knows is over", func() bool {
		return s.admit(short("later")).Verdict == dedupe.Won
	})
}

// effectScope: an effect is its conversation's, or its tenant's.
func effectScope(s *suite) {
	elsewhere := func(tenant, conversation string, whole bool) dedupe.Request {
		req := pays(tenant+conversation, tool.NonIdempotent)
		req.Key.Tenant, req.Key.Conversation, req.EffectKey.WholeTenant = tenant, conversation, whole
		return req
	}
	other := pays("other", tool.NonIdempotent)
	other.EffectKey.Print = [32]byte{8}
	s.wantVerdict(s.admit(elsewhere("acme", "c-1", false)), dedupe.Won)
	s.wantVerdict(s.admit(other), dedupe.Won)
	s.wantVerdict(s.admit(elsewhere("acme", "c-2", false)), dedupe.Won)
	s.wantVerdict(s.admit(elsewhere("umbrella", "c-1", false)), dedupe.Won)

	first := elsewhere("acme", "c-3", true)
	if _, err := s.store.Admit(s.Context(), first); errors.Is(err, dedupe.ErrInvalid) {
		return // this store cannot do it in one step, and says so
	}
	s.settle(dedupe.Settlement{Key: first.Key, Owner: first.Owner, Epoch: 1, State: dedupe.Done, Result: []byte("paid"), Retention: retention})
	got := s.admit(elsewhere("acme", "c-4", true))
	s.wantVerdict(got, dedupe.DuplicateEffect)
	if got.Earlier != first.Key || string(got.Record.Result) != "paid" {
		s.Errorf("the earlier call is %+v with %q, want %+v", got.Earlier, got.Record.Result, first.Key)
	}
	s.wantVerdict(s.admit(elsewhere("acme", "", true)), dedupe.DuplicateEffect)
	s.wantVerdict(s.admit(elsewhere("umbrella", "c-4", true)), dedupe.Won)
	s.wantVerdict(s.admit(elsewhere("ini", "", true)), dedupe.Won)
	s.wantVerdict(s.admit(elsewhere("ini", "c-1", true)), dedupe.EffectInFlight)
}

// effectCosts: a refused call is charged nothing, and an effect is told before a
// budget.
func effectCosts(s *suite) {
	within := func(id string) dedupe.Request {
		req := drawn(id, dedupe.Draw{MaxCalls: 1})
		req.Owner, req.EffectKey = "owner of "+id, payment
		req.Logs = []string{"guard"}
		return req
	}
	won := s.admit(within("a"))
	s.wantVerdict(won, dedupe.Won)
	if len(won.Logs) != 1 {
		s.Errorf("a claim with an effect brings %d logs", len(won.Logs))
	}
	end := paid("a", 1, dedupe.Done)
	end.Appends = []dedupe.Append{{Log: "guard", Entry: []byte("done"), Keep: 3}}
	end.Frees, end.Output = dedupe.EffectKey{Print: [32]byte{9}}, &dedupe.Output{Ref: "ref", Data: []byte("kept"), TTL: time.Hour}
	s.settle(end)
	if got := s.log("guard"); len(got) != 1 || string(got[0]) != "done" {
		s.Errorf("the log has %q", got)
	}
	if got, err := s.store.Output(s.Context(), "acme", "ref"); err != nil || string(got.Data) != "kept" {
		s.Errorf("the output is %q, %v", got.Data, err)
	}
	refused := s.admit(within("b"))
	s.wantVerdict(refused, dedupe.DuplicateEffect)
	s.wantTally("refused", refused.Tally, dedupe.Tally{Calls: 1})
	s.wantVerdict(s.admit(allowed(within("b"))), dedupe.Exceeded)
	s.charged("after all", 1)
	unlimited := within("b")
	unlimited.Draw.MaxCalls = 0
	s.wantVerdict(s.admit(unlimited), dedupe.DuplicateEffect)
	got := s.admit(allowed(unlimited))
	s.wantVerdict(got, dedupe.Won)
	s.wantTally("allowed", got.Tally, dedupe.Tally{Calls: 2})
}

// effectCrowd: of many ids with one effect one wins.
func effectCrowd(s *suite) {
	var won atomic.Int32
	var crowd sync.WaitGroup
	for i := range 32 {
		crowd.Go(func() {
			got, err := s.store.Admit(s.Context(), pays(fmt.Sprint(i), tool.NonIdempotent))
			switch {
			case err != nil:
				s.Errorf("Admit: %v", err)
			case got.Verdict == dedupe.Won:
				won.Add(1)
			case got.Verdict != dedupe.EffectInFlight:
				s.Errorf("got %v", got.Verdict)
			}
		})
	}
	crowd.Wait()
	if won.Load() != 1 {
		s.Errorf("%d calls won, want 1", won.Load())
	}
}

// effectRestored: a claim that the store has forgotten holds its effect again.
func effectRestored(s *suite) {
	for id, want := range map[string]dedupe.Verdict{"refund": dedupe.EffectUnknown, "keyed": dedupe.EffectInFlight} {
		s.of(id, func(s *suite) {
			effect := tool.NonIdempotent
			if id == "keyed" {
				effect = tool.Keyed
			}
			back := renews(id, "owner of "+id, 1, effect)
			back.Claim.EffectKey = payment
			if _, restored, err := s.store.Renew(s.Context(), back); err != nil || !restored {
				s.Fatalf("not restored: %v", err)
			}
			got := s.admit(pays("b", effect))
			s.wantVerdict(got, want)
			s.wantEarlier(id, got, id, s.lookup(key(id)))
		})
	}
	for state, want := range map[dedupe.State]dedupe.Verdict{
		dedupe.Done: dedupe.DuplicateEffect, dedupe.Unknown: dedupe.EffectUnknown, dedupe.NotRun: dedupe.Won,
	} {
		s.of("late "+state.String(), func(s *suite) {
			end := late(paid("a", 1, state), tool.NonIdempotent)
			end.Claim.EffectKey = payment
			for range 2 {
				s.settle(end)
			}
			s.wantVerdict(s.admit(pays("b", tool.NonIdempotent)), want)
		})
	}
	s.of("resolved wrongly", func(s *suite) {
		pay(tool.NonIdempotent, paid("a", 1, dedupe.Unknown), resolved(paid("a", 1, dedupe.NotRun)))(s)
		s.wantVerdict(s.admit(pays("b", tool.NonIdempotent)), dedupe.Won)
		s.settle(paid("b", 1, dedupe.NotRun))
		end := late(paid("a", 1, dedupe.Done), tool.NonIdempotent)
		end.Claim.EffectKey = payment
		if got := s.settle(end); got != dedupe.Settled {
			s.Fatalf("who knows that it ran: %v", got)
		}
		s.wantVerdict(s.admit(pays("c", tool.NonIdempotent)), dedupe.DuplicateEffect)
	})
}
