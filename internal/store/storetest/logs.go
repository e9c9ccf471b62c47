package storetest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// appends settles a call with entries for logs.
func (s *suite) appends(id string, appends ...dedupe.Append) {
	s.Helper()
	s.admit(request(id, "alice", tool.NonIdempotent, long))
	end := settlement(id, "alice", 1, dedupe.Done)
	end.Appends = appends
	s.settle(end)
}

func logs(s *suite) {
	binary := string([]byte{0, 1, 0xff, '\r', '\n'})
	for i := range 7 {
		entry := []byte(fmt.Sprint(i, binary))
		s.appends(fmt.Sprint(i), dedupe.Append{Log: "guard/" + every[:20], Entry: entry, Keep: 5}, dedupe.Append{Log: "failures", Entry: entry[:1], Keep: 100})
	}
	largest := bytes.Repeat([]byte{7}, dedupe.MaxEntryBytes)
	s.appends("large", dedupe.Append{Log: "large", Entry: largest, Keep: dedupe.MaxLogEntries})
	req := request("asks", "alice", tool.NonIdempotent, long)
	req.Logs = []string{"failures", "guard/" + every[:20], "none", "large"}
	got := s.admit(req).Logs
	want := dedupe.Logs{nil, nil, nil, {largest}}
	for i := range 7 {
		want[0] = append(want[0], []byte(fmt.Sprint(i)))
		if i >= 2 {
			want[1] = append(want[1], []byte(fmt.Sprint(i, binary)))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("other logs (-want +got): %s", diff)
	}
	if again := s.admit(req).Logs; !cmp.Equal(again, want) {
		s.Error("asked again by its owner, other logs")
	}
	only := req
	only.Key, only.HoldOnly = key("only asks"), true
	if told := s.admit(only); told.Verdict != dedupe.MayRun || !cmp.Equal(told.Logs, want) || s.lookup(only.Key).State != dedupe.Absent {
		s.Errorf("who only asks is told %v, with %d logs", told.Verdict, len(told.Logs))
	}
	req.Owner = "bob"
	if other := s.admit(req); other.Verdict != dedupe.InFlight || other.Logs != nil {
		s.Errorf("%v brings %d logs", other.Verdict, len(other.Logs))
	}
	s.appends("shrinks", dedupe.Append{Log: "failures", Entry: []byte("last"), Keep: 2})
	if got := s.log("failures"); !slices.EqualFunc(got, []string{"6", "last"}, func(a []byte, b string) bool { return string(a) == b }) {
		s.Errorf("cut to two entries it has %q", got)
	}
}

func logOnce(s *suite) {
	one := []dedupe.Append{{Log: "guard", Entry: []byte("x"), Keep: 9}}
	want := func(when string, entries int) {
		s.Helper()
		if got := len(s.log("guard")); got != entries {
			s.Errorf("%s: %d entries, want %d", when, got, entries)
		}
	}
	s.admit(request("x", "alice", tool.NonIdempotent, long))
	end := settlement("x", "alice", 1, dedupe.Unknown)
	end.Appends = one
	for range 3 {
		s.settle(end)
	}
	want("the same settlement three times", 1)
	other := settlement("x", "bob", 1, dedupe.Done)
	other.Appends = one
	s.settle(other)
	want("superseded", 1)
	end.State = dedupe.Done
	s.settle(end)
	want("settled anew", 2)
}

func notes(s *suite) {
	noted := func(id string, entries int, state dedupe.State) {
		s.Helper()
		n := note(id)
		n.Appends = []dedupe.Append{{Log: "guard", Entry: []byte(id), Keep: 9}}
		n.Logs, n.Counter = []string{"guard", "none"}, "p-1"
		got := s.note(n)
		if len(got.Logs) != 2 || len(got.Logs[0]) != entries || got.Logs[1] != nil || got.Record.State != state {
			s.Errorf("%q noted: %v, %q, want %d entries", id, got.Record.State, got.Logs, entries)
		}
		if diff := sameRecord(s.lookup(key(id)), got.Record); diff != "" {
			s.Errorf("%q noted, another record than is looked up: %s", id, diff)
		}
		s.wantTally(id, got.Tally, dedupe.Tally{Calls: 2})
	}
	s.admit(drawn("done", dedupe.Draw{}))
	s.settle(settlement("done", "alice", 1, dedupe.Done))
	s.admit(drawn("claimed", dedupe.Draw{}))
	for id, state := range map[string]dedupe.State{"not run": dedupe.NotRun, "unknown": dedupe.Unknown} {
		s.admit(request(id, "alice", tool.NonIdempotent, long))
		s.settle(settlement(id, "alice", 1, state))
	}
	noted("new", 1, dedupe.Absent)
	noted("new", 2, dedupe.Absent)
	noted("not run", 3, dedupe.NotRun)
	noted("done", 3, dedupe.Done)
	noted("claimed", 3, dedupe.Claimed)
	noted("unknown", 3, dedupe.Unknown)
}

func ownTallies(s *suite) {
	here := drawn("x", dedupe.Draw{})
	s.admit(here)
	s.appends("y", dedupe.Append{Log: "p-1", Entry: []byte("x"), Keep: 1}) // a log of the tally's name
	for _, other := range []tool.CallID{
		{Tenant: "acme", Conversation: "c-1/4", ID: "x"}, {Tenant: "acme", Conversation: "c-2", ID: "x"},
		{Tenant: "acm", Conversation: "e/c-1", ID: "x"}, {Tenant: "other", Conversation: "c-1", Turn: "4", ID: "x"},
	} {
		got := s.note(dedupe.Note{Key: other, Logs: []string{"p-1"}, Counter: "p-1", Retention: retention})
		if got.Tally != (dedupe.Tally{}) || got.Logs[0] != nil {
			s.Errorf("%+v has %+v and %q", other, got.Tally, got.Logs)
		}
	}
	if listed := s.list(); len(listed) != 1 || listed[here.Key].State != dedupe.Claimed {
		s.Errorf("a listing of undecided calls has %v", listed)
	}
}
