package storetest

import (
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// succession: the next incarnation of an instance does not wait for the leases of
// those before it; everybody else does.
func succession(s *suite) {
	const holder = "@shop@7.host-1.x.1"
	for _, owner := range []string{
		"@shop@8.host-2.y.1", "@shop@10.host-2.y.1", // who comes after it
		"@shop@7.host-1.x.2", "@shop@6.host-2.y.1", "@shop@07.host-2.y.1", // its own process, and those before it
		"@shop2@8.host-2.y.1", "@@8.host-2.y.1", "shop-8.y.1", "@shop@8", "@shop@-8.y.1", "@shop@8@9.y.1", "bob", // others
	} {
		for _, effect := range effects {
			id := fmt.Sprintf("%v by %s", effect, owner)
			claim, next := request(id, holder, effect, long), request(id, owner, effect, long)
			s.wantVerdict(s.admit(claim), dedupe.Won)
			now := time.Now()
			record, _, _ := dedupe.Record{}.Admit(claim, now)
			want, verdict, _ := record.Admit(next, now)
			got := s.admit(next)
			if diff := sameRecord(want, got.Record); got.Verdict != verdict || diff != "" {
				s.Errorf("%s: got %v, want %v; the record differs (-want +got):\n%s", id, got.Verdict, verdict, diff)
			}
			if diff := sameRecord(want, s.lookup(key(id))); diff != "" {
				s.Errorf("%s: then the record differs (-want +got):\n%s", id, diff)
			}
			// Who came before can still say what became of it, unless it runs again.
			end := settlement(id, holder, 1, dedupe.Done)
			if _, want, _ := want.Settle(end, now); s.settle(end) != want {
				s.Errorf("%s: the settlement of its owner is not %v", id, want)
			}
		}
	}
	// Nor does one whose owner is not known from before there were instances.
	s.wantVerdict(s.admit(request("old", "host-7.x.1", tool.Keyed, long)), dedupe.Won)
	s.wantVerdict(s.admit(request("old", "@host-7@8.y.1", tool.Keyed, long)), dedupe.InFlight)
}

// tenures: one process is an instance at a time, on a store that keeps tenures.
func tenures(s *suite) {
	store, ok := s.store.(dedupe.Tenures)
	if !ok {
		return
	}
	var model dedupe.Tenure
	bid := func(what string, b dedupe.Bid, has bool) dedupe.Tenure {
		s.Helper()
		before, after, err := store.Bid(s.Context(), b)
		if err != nil || (after.Token == b.Token) != has {
			s.Fatalf("%s: got %+v, %v, want its own: %t", what, after, err, has)
		}
		expected := model.Bid(b, time.Now())
		if after.Token != expected.Token || after.Renewals != expected.Renewals || after.Who != expected.Who || after.Until.IsZero() != expected.Until.IsZero() {
			s.Errorf("%s: got %+v, want %+v", what, after, expected)
		}
		if before != model {
			s.Errorf("%s: it was %+v, and is said to have been %+v", what, model, before)
		}
		if before.Token != "" && before.Token != after.Token && after.Number <= before.Number {
			s.Errorf("%s: %d succeeds %d", what, after.Number, before.Number)
		}
		model = after
		return after
	}
	alice := dedupe.Bid{Instance: "shop {7}/@ü", Token: "alice", Who: dedupe.Who{Host: `a "b"}` + "\n", PID: 7}, TTL: long, Keep: long}
	bob := alice
	bob.Token, bob.Who = "bob", dedupe.Who{}
	first := bid("the first", alice, true)
	bid("its answer was lost", alice, true)
	alice.Number = first.Number
	bid("renewed", alice, true)
	bid("another", bob, false)
	bob.Gone = first // it has been renewed since
	bid("another that has seen too little", bob, false)
	bob.Gone = model
	second := bid("another that knows it is gone", bob, true)
	bid("who was succeeded", alice, false)
	alice.Resigns = true
	bid("who was succeeded resigns", alice, false)
	bob.Gone, bob.Number, bob.Resigns = dedupe.Tenure{}, second.Number, true
	bid("resigns", bob, true)
	carol := dedupe.Bid{Instance: alice.Instance, Token: "carol", TTL: s.lease, Keep: long, Looks: true}
	bid("after who has resigned", carol, true)
	dave := carol
	dave.Token, dave.TTL, dave.Looks = "dave", long, false
	erin := carol
	erin.Token = "erin"
	s.await("the tenure is over", func() bool {
		bid("who only looks", erin, false)
		_, after, err := store.Bid(s.Context(), dave)
		return err == nil && after.Token == dave.Token && after.Number > model.Number
	})
	other := alice
	other.Instance, other.Resigns, other.Number = "shop", false, 0
	if before, after, err := store.Bid(s.Context(), other); before.Token != "" || after.Token != other.Token || err != nil {
		s.Errorf("of another instance: got %+v, %v", after, err)
	}
}
