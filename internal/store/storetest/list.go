package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// listPages bounds the pages of a listing, so that one that never ends fails.
const listPages = 1000

// list walks over a whole listing.
func (s *suite) list() map[tool.CallID]dedupe.Record {
	s.Helper()
	found := map[tool.CallID]dedupe.Record{}
	from := ""
	for range listPages {
		page, err := s.store.ListOpen(s.Context(), from)
		if err != nil {
			s.Fatalf("ListOpen from %q: %v", from, err)
		}
		for _, call := range page.Calls {
			found[call.Key] = call.Record
		}
		if from = page.Next; from == "" {
			return found
		}
	}
	s.Fatalf("the listing has no end")
	return nil
}

// odd are keys that are hard to write and to read back.
var odd = []tool.CallID{
	{ID: "only an id"},
	{Tenant: "a/b", Conversation: "{c}", Turn: "t%2F", ID: "1 2+3"},
	{Conversation: "\x00\x01", Turn: "\x00\xff", ID: "é\n}"},
	{Tenant: "t", Turn: "4", ID: "*[a]?\\"},
}

// openCalls has calls of every state among thousands, of which exactly the claimed, the unknown and
// the held ones are listed.
func openCalls(s *suite) {
	want := map[tool.CallID]dedupe.Record{}
	for i, k := range odd {
		claim := request("", "alice", tool.NonIdempotent, long)
		claim.Key = k
		s.wantVerdict(s.admit(claim), dedupe.Won)
		end := settlement("", "alice", 1, dedupe.Unknown)
		end.Key = k
		s.settle(end)
		want[odd[i]] = s.lookup(k)
	}
	for i := range 2500 { // more than one page of any store
		a := s.admit(request(fmt.Sprintf("running %d", i), "alice", tool.NonIdempotent, long))
		s.wantVerdict(a, dedupe.Won)
		want[key(fmt.Sprintf("running %d", i))] = a.Record
	}
	s.bring("held", from{held: true}, tool.NonIdempotent, time.Now())
	want[key("held")] = s.lookup(key("held"))
	s.bring("held, over", from{held: true, over: true}, tool.NonIdempotent, time.Now())
	s.answer(closing("closed", s.see(key("closed"))))
	for _, state := range []dedupe.State{dedupe.Done, dedupe.NotRun} {
		s.bring(state.String(), from{claimed: true, settled: state}, tool.NonIdempotent, time.Now())
	}
	expired := "expired"
	s.wantVerdict(s.admit(request("repeatable", "alice", tool.Idempotent, s.lease)), dedupe.Won)
	s.wantVerdict(s.admit(request(expired, "alice", tool.NonIdempotent, s.lease)), dedupe.Won)
	s.awaitState(expired, dedupe.Unknown)
	s.awaitState("held, over", dedupe.NotRun)
	want[key(expired)] = s.lookup(key(expired))

	if diff := cmp.Diff(want, s.list()); diff != "" {
		s.Fatalf("the listing differs (-want +got):\n%s", diff)
	}
	for k, record := range want {
		if !record.State.Open() {
			continue
		}
		end := dedupe.Settlement{
			Key: k, Owner: record.Owner, Epoch: record.Epoch, Resolves: true, State: dedupe.Done,
			Result: []byte("seen in the books"), Retention: retention,
		}
		if verdict := s.settle(end); verdict != dedupe.Settled {
			s.Errorf("%+v: resolved with verdict %d", k, verdict)
		}
	}
	for k, record := range s.list() {
		if record.State != dedupe.Claimed {
			s.Errorf("resolved, and still listed: %v, %+v", k, record)
		}
	}
	if _, err := s.store.ListOpen(s.Context(), "nowhere"); !isInvalid(err) {
		s.Error("a listing went on from nowhere")
	}
}

// watched waits for the settling of a call, if the store can tell of it.
func watched(s *suite) {
	watcher, ok := s.store.(dedupe.Watcher)
	if !ok {
		return // a store of one process: its duplicates wait in package dedupe
	}
	s.wantVerdict(s.admit(request("call", "alice", tool.NonIdempotent, long)), dedupe.Won)
	other, stopOther := watcher.Watch(key("other"))
	defer stopOther()
	<-other // the subscription stands: who watches from now on is told of its call alone
	hints, stop := watcher.Watch(key("call"))
	defer stop()
	s.wantVerdict(s.admit(request("call", "bob", tool.NonIdempotent, long)), dedupe.InFlight)
	s.settle(settlement("call", "alice", 1, dedupe.Done))
	select {
	case <-hints:
	case <-time.After(10 * time.Second):
		s.Error("nobody said that the call was settled")
	}
	select {
	case <-other:
		s.Error("the wrong waiter was told")
	default:
	}
}
