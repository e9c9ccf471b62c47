package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/tool"
)

// terms are those of some orders.
func terms(orders ...string) (all []dedupe.Term) {
	for _, order := range orders {
		all = append(all, dedupe.TermOf("acme", "argument", "order_id", order))
	}
	return all
}

// byTerm asks for the calls of an order.
func byTerm(order string) dedupe.Search {
	return dedupe.Search{Tenant: "acme", Term: terms(order)[0], Most: dedupe.MaxFound}
}

// of is a request about some orders.
func of(id string, orders ...string) dedupe.Request {
	req := request(id, "owner of "+id, tool.NonIdempotent, long)
	req.Terms = terms(orders...)
	return req
}

// ends is the settlement of what of asks for.
func ends(id string, state dedupe.State) dedupe.Settlement {
	return settlement(id, "owner of "+id, 1, state)
}

// find walks over all that is found.
func (s *suite) find(search dedupe.Search) (all []dedupe.Listed) {
	s.Helper()
	for range listPages {
		page, err := s.store.Find(s.Context(), search)
		if err != nil {
			s.Fatalf("Find from %q: %v", search.From, err)
		}
		if len(page.Calls) > search.Most {
			s.Fatalf("a page has %d calls, want at most %d", len(page.Calls), search.Most)
		}
		all = append(all, page.Calls...)
		if search.From = page.Next; search.From == "" {
			return all
		}
	}
	s.Fatalf("what is found has no end")
	return nil
}

func ids(calls []dedupe.Listed) (ids []string) {
	for _, call := range calls {
		ids = append(ids, call.Key.ID)
	}
	return ids
}

// wantFound fails when the calls of an order are others, or in another order.
func (s *suite) wantFound(order string, want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, ids(s.find(byTerm(order)))); diff != "" {
		s.Errorf("the calls of order %s differ (-want +got):\n%s", order, diff)
	}
}

// pass waits until a claim is later than all before it. It returns when that was.
func (s *suite) pass() (now time.Time) {
	s.Helper()
	claimed := func() time.Time {
		s.passes++
		return s.admit(request(fmt.Sprint("pass ", s.passes), "nobody", tool.ReadOnly, long)).Record.StartedAt
	}
	before := claimed()
	s.await("time passes", func() bool {
		now = claimed()
		return now.After(before)
	})
	return now
}

// found: by each of its terms, with its record as it is, the latest first.
func found(s *suite) {
	s.wantFound("A-77")
	states := []dedupe.State{dedupe.Done, dedupe.NotRun, dedupe.Unknown, dedupe.Claimed}
	for _, state := range states {
		req := of(state.String(), "A-77", state.String(), "third")
		req.Details = []byte("details of " + state.String())
		s.wantVerdict(s.admit(req), dedupe.Won)
		if state != dedupe.Claimed {
			s.settle(ends(state.String(), state))
		}
		s.pass()
	}
	s.wantVerdict(s.admit(of("of another", "A-78")), dedupe.Won)
	s.wantVerdict(s.admit(of("of none")), dedupe.Won)
	s.wantFound("A-77", "claimed", "unknown", "not_run", "done")
	s.wantFound("unknown", "unknown")
	s.wantFound("A-78", "of another")
	for _, call := range s.find(byTerm("third")) {
		want := s.lookup(call.Key)
		if diff := cmp.Diff(want, call.Record, cmpopts.EquateEmpty()); diff != "" || call.Err != nil {
			s.Errorf("%s: %v; the record differs (-want +got):\n%s", call.Key.ID, call.Err, diff)
		}
		if state := call.Record.State; string(call.Record.Details) != "details of "+state.String() || (state != dedupe.Claimed) != (len(call.Record.Result) > 0) {
			s.Errorf("%s has details %q and a result %q", call.Key.ID, call.Record.Details, call.Record.Result)
		}
	}
	for _, k := range odd {
		req := of("", "odd")
		req.Key, req.Terms = k, []dedupe.Term{dedupe.TermOf(k.Tenant, "", "", "odd")}
		s.wantVerdict(s.admit(req), dedupe.Won)
		got := s.find(dedupe.Search{Tenant: k.Tenant, Term: req.Terms[0], Most: 1})
		if i := slices.IndexFunc(got, func(call dedupe.Listed) bool { return call.Key == k }); i < 0 {
			s.Errorf("%+v is not found among %v", k, got)
		}
	}
	for what, search := range map[string]dedupe.Search{
		"nowhere":          {Tenant: "acme", From: "nowhere", Most: 1},
		"no base64":        {Tenant: "acme", From: "\x00", Most: 1},
		"no calls":         {Tenant: "acme"},
		"more than a page": {Tenant: "acme", Most: dedupe.MaxFound + 1},
	} {
		if _, err := s.store.Find(s.Context(), search); !isInvalid(err) {
			s.Errorf("%s: got %v", what, err)
		}
	}
}

// foundOnce: who claims a call again puts it before those that were claimed meanwhile.
func foundOnce(s *suite) {
	s.wantVerdict(s.admit(of("again", "A-77", "B-12")), dedupe.Won)
	s.pass()
	s.wantVerdict(s.admit(of("once", "A-77")), dedupe.Won)
	s.settle(ends("again", dedupe.NotRun))
	s.wantFound("A-77", "once", "again")
	s.pass()
	again := of("again", "A-77", "B-12")
	again.Owner = "another"
	s.wantVerdict(s.admit(again), dedupe.Won)
	s.wantFound("A-77", "again", "once")
	end := ends("again", dedupe.Done)
	end.Owner, end.Epoch = "another", 2
	end.Retention = s.lease
	s.settle(end)
	s.wantFound("A-77", "again", "once")
	s.wantFound("B-12", "again")
	s.awaitState("again", dedupe.Absent)
	s.wantFound("A-77", "again", "once")

	lost := of("lost", "C-1")
	lost.Effect, lost.Lease = tool.Idempotent, s.lease
	s.wantVerdict(s.admit(lost), dedupe.Won)
	s.awaitState("lost", dedupe.NotRun)
	lost.Owner, lost.Lease = "another", long
	s.wantVerdict(s.admit(lost), dedupe.Won)
	s.wantFound("C-1", "lost")
}

// foundForgotten: what the store has forgotten it has not never seen.
func foundForgotten(s *suite) {
	for _, id := range []string{"forgotten", "reused"} {
		s.wantVerdict(s.admit(of(id, "A-77")), dedupe.Won)
		end := ends(id, dedupe.Done)
		end.Retention = s.lease
		s.settle(end)
		s.pass()
	}
	s.wantVerdict(s.admit(of("kept", "A-77")), dedupe.Won)
	s.awaitState("forgotten", dedupe.Absent)
	s.awaitState("reused", dedupe.Absent)
	got := s.find(byTerm("A-77"))
	if diff := cmp.Diff([]string{"kept", "reused", "forgotten"}, ids(got)); diff != "" {
		s.Fatalf("found are (-want +got):\n%s", diff)
	}
	for _, call := range got[1:] {
		if call.Err != nil || !cmp.Equal(call, dedupe.Listed{Key: key(call.Key.ID)}, cmpopts.EquateEmpty()) {
			s.Errorf("found as %+v", call)
		}
	}
	s.pass()
	s.wantVerdict(s.admit(of("reused", "A-77")), dedupe.Won)
	s.wantFound("A-77", "reused", "kept", "forgotten")
	s.pass()
	s.wantVerdict(s.admit(of("forgotten", "A-78")), dedupe.Won) // with other arguments
	s.wantFound("A-78", "forgotten")
	got = s.find(byTerm("A-77"))
	slices.SortFunc(got, func(a, b dedupe.Listed) int { return strings.Compare(a.Key.ID, b.Key.ID) })
	if diff := cmp.Diff([]string{"forgotten", "kept", "reused"}, ids(got)); diff != "" {
		s.Errorf("then found are (-want +got):\n%s", diff)
	}
	s.wantFound("never")
}

func foundSince(s *suite) {
	s.wantVerdict(s.admit(of("before", "A-77")), dedupe.Won)
	s.pass()
	edge := s.admit(of("at", "A-77"))
	s.wantVerdict(edge, dedupe.Won)
	s.pass()
	s.wantVerdict(s.admit(of("after", "A-77")), dedupe.Won)
	search := byTerm("A-77")
	search.Since = edge.Record.StartedAt
	if diff := cmp.Diff([]string{"after", "at"}, ids(s.find(search))); diff != "" {
		s.Errorf("since the one between (-want +got):\n%s", diff)
	}
	search.Since = s.pass()
	if got := s.find(search); len(got) > 0 {
		s.Errorf("since the last there are %q", ids(got))
	}
}

const manyHits = 2500 // more than two pages

// foundInPages: however many there are on a page, each is found once, the latest first.
func foundInPages(s *suite) {
	crowd(50, func(worker int) {
		for i := worker; i < manyHits; i += 50 {
			req := of(fmt.Sprint(i), "popular", fmt.Sprint("own ", i))
			req.Key.Conversation = fmt.Sprint("c-", i%40)
			if i%5 == 0 {
				req.Key.Conversation = "large"
			}
			if _, err := s.store.Admit(s.Context(), req); err != nil {
				s.Error(err)
			}
		}
	})
	for _, most := range []int{97, 1000} {
		search := byTerm("popular")
		search.Most = most
		got := s.find(search)
		once := map[string]bool{}
		for i, call := range got {
			if once[call.Key.ID] {
				s.Errorf("%d on a page: %s is found twice", most, call.Key.ID)
			}
			once[call.Key.ID] = true
			if i > 0 && call.Record.StartedAt.After(got[i-1].Record.StartedAt) {
				s.Errorf("%d on a page: %s is after one that was claimed before", most, call.Key.ID)
			}
		}
		if len(once) != manyHits {
			s.Errorf("%d on a page: %d of %d are found", most, len(once), manyHits)
		}
	}
	s.wantFound("own 2499", "2499")
}

func foundByConversation(s *suite) {
	for _, conversation := range []string{"c1", "c2", "c3"} {
		req := of("of "+conversation, "A-77")
		req.Key.Conversation = conversation
		s.wantVerdict(s.admit(req), dedupe.Won)
	}
	for conversation, want := range map[string][]string{"c2": {"of c2"}, "c9": nil, "": {"of c1", "of c2", "of c3"}} {
		search := byTerm("A-77")
		search.Conversation = conversation
		got := ids(s.find(search))
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			s.Errorf("of %q (-want +got):\n%s", conversation, diff)
		}
	}
}

func foundByTenant(s *suite) {
	for _, tenant := range []string{"acme", "acm", "globex", ""} {
		req := of("of "+tenant, "A-77")
		req.Key.Tenant = tenant
		s.wantVerdict(s.admit(req), dedupe.Won)
	}
	for _, tenant := range []string{"acme", "acm", "globex", "", "nobody"} {
		search := byTerm("A-77")
		search.Tenant = tenant
		got, want := s.find(search), []string{"of " + tenant}
		if tenant == "nobody" {
			want = nil
		}
		if diff := cmp.Diff(want, ids(got)); diff != "" || len(got) > 0 && got[0].Key.Tenant != tenant {
			s.Errorf("of %q (-want +got):\n%s", tenant, diff)
		}
	}
}

// foundRestored: a claim that the store hears of later, a settlement without one, and what a
// conversation has answered.
func foundRestored(s *suite) {
	back := renews("renewed", "alice", 3, tool.Keyed)
	back.Claim.Terms = terms("A-77", "B-12")
	back.Claim.Record.StartedAt = s.pass()
	if _, restored := s.restore(back); !restored {
		s.Error("it is not restored")
	}
	s.pass()
	end := late(settlement("settled", "alice", 2, dedupe.Done), tool.NonIdempotent)
	end.Claim.Terms = terms("A-77")
	end.Claim.Record.StartedAt = s.pass()
	if got := s.settle(end); got != dedupe.SettledAnew && got != dedupe.Settled {
		s.Errorf("the settlement of what was forgotten is %v", got)
	}
	s.pass()
	closes := closing("closed", s.see(key("closed")))
	closes.Terms = terms("A-77")
	if !s.answer(closes) {
		s.Error("it is not closed")
	}
	s.wantFound("A-77", "closed", "settled", "renewed")
	s.wantFound("B-12", "renewed")

	s.admit(of("not run", "C-1"))
	s.settle(ends("not run", dedupe.NotRun))
	closes = closing("not run", s.see(key("not run")))
	closes.Terms = terms("C-1")
	k := conversationKey(closes.Key.Conversation)
	if !s.write(conversation.Write{Key: k, Was: s.stored(k, 0, 0).Head, Head: []byte("more"), Closings: []dedupe.Closing{closes}}) {
		s.Error("what was not run is not closed")
	}
	s.wantFound("C-1", "not run")
	for _, call := range s.find(byTerm("A-77")) {
		if diff := cmp.Diff(s.lookup(call.Key), call.Record, cmpopts.EquateEmpty()); diff != "" {
			s.Errorf("%s: the record differs (-want +got):\n%s", call.Key.ID, diff)
		}
	}
}

// foundMeanwhile: who walks over the calls of an order finds each that was there before, once.
func foundMeanwhile(s *suite) {
	const before, after = 300, 300
	claim := func(id string) {
		if got, err := s.store.Admit(s.Context(), of(id, "busy")); err != nil || got.Verdict != dedupe.Won {
			s.Errorf("%s: %v, %v", id, got.Verdict, err)
		}
	}
	crowd(30, func(worker int) {
		for i := worker; i < before; i += 30 {
			claim(fmt.Sprint("before ", i))
		}
	})
	var claims sync.WaitGroup
	defer claims.Wait()
	claims.Go(func() {
		for i := range after {
			claim(fmt.Sprint("after ", i))
		}
	})
	search, times := byTerm("busy"), map[string]int{}
	search.Most = 20
	for _, call := range s.find(search) {
		times[call.Key.ID]++
	}
	claims.Wait()
	for i := range before {
		if id := fmt.Sprint("before ", i); times[id] != 1 {
			s.Errorf("%q was found %d times", id, times[id])
		}
	}
	if got := s.find(byTerm("busy")); len(got) != before+after {
		s.Errorf("in the end %d of %d are found", len(got), before+after)
	}
}
