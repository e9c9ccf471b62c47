//go:build e2e || prove

package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// claimAbout claims a call that is found by a term.
func claimAbout(t *testing.T, s *Store, id string, retention time.Duration) dedupe.Record {
	t.Helper()
	req := request(id, tool.NonIdempotent)
	req.Terms, req.Retention = []dedupe.Term{{1}}, retention
	a, err := s.Admit(t.Context(), req)
	if err != nil || a.Verdict != dedupe.Won {
		t.Fatal(a.Verdict, err)
	}
	return a.Record
}

func findAll(t *testing.T, s *Store) []dedupe.Listed {
	t.Helper()
	page, err := s.Find(t.Context(), dedupe.Search{Tenant: "acme", Term: dedupe.Term{1}, Most: 100})
	if err != nil || page.Next != "" {
		t.Fatal(page.Next, err)
	}
	return page.Calls
}

// indexes are the sets of entries that a server has.
func indexesOf(srv *redisserver.Server) (keys []string) {
	for _, key := range srv.Do("keys", "sidecall:find/*").([]any) {
		keys = append(keys, key.(string))
	}
	slices.Sort(keys)
	return keys
}

// An index is one for a shard, a tenant and a period, has one entry for a term of a call, and
// goes when the last of them may.
func TestTheIndexInRedis(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	claimed := claimAbout(t, s, "a/b", 24*time.Hour)
	number := claimed.StartedAt.UnixMilli() / (24 * time.Hour).Milliseconds()
	key := request("", 0).Key
	name := string(appendPeriod(nil, "sidecall:", shardOfCall(&key), "acme", 24*60, number))
	if keys := indexesOf(srv); !slices.Equal(keys, []string{name}) {
		t.Fatalf("there is %q, want %q", keys, name)
	}
	want := "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		backwards(claimed.StartedAt.UnixMilli()) + "c/1/a%2Fb"
	if got := fmt.Sprintf("%q", srv.Do("zrange", name, 0, -1, "withscores")); got != fmt.Sprintf("%q", []any{want, "0"}) {
		t.Errorf("it has %s, want %q", got, want)
	}
	lives := func(want time.Duration) {
		t.Helper()
		ms, _ := srv.Do("pttl", name).(int64)
		if got := time.Duration(ms) * time.Millisecond; got > want || got < want-time.Minute {
			t.Errorf("it lives for %v, want %v", got, want)
		}
	}
	lives(72 * time.Hour)
	claimAbout(t, s, "longer", 50*time.Hour)
	lives(150 * time.Hour)
	claimAbout(t, s, "shorter", 10*time.Hour)
	lives(150 * time.Hour)
	if keys := indexesOf(srv); len(keys) != 1 {
		t.Errorf("there are %q", keys)
	}
	claimAbout(t, s, "much longer", 70*24*time.Hour)
	claimAbout(t, s, "much shorter", time.Minute)
	if keys, found := indexesOf(srv), findAll(t, s); len(keys) != 3 || len(found) != 5 {
		t.Errorf("in %q there are %v", keys, found)
	}
}

// Entries are in memory for little longer than they are kept, however short that is, and those of
// a length are in few periods, however long it is.
func TestPeriodsFitWhatIsKept(t *testing.T) {
	t.Parallel()
	for keep := dedupe.IndexKeep(time.Minute); keep <= dedupe.IndexKeep(8760*time.Hour); keep += keep / 16 {
		period := time.Duration(periodOf(keep)) * time.Minute
		if period > keep || keep >= (periodsKept+1)*period {
			t.Errorf("what is kept for %v is in periods of %v", keep, period)
		}
	}
}

// Terms cost no round trip, neither a call nor one that is claimed again.
func TestRoundTripsOfTerms(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addrs: []string{redisserver.Start(t, redisserver.Options{}).Addr}})
	claimAbout(t, s, "first", time.Hour) // the script is known then
	for _, owner := range []string{"one", "another"} {
		before := s.RoundTrips()
		req := request("x", tool.NonIdempotent)
		req.Owner, req.Terms = owner, []dedupe.Term{{1}, {2}, {3}}
		a, err := s.Admit(t.Context(), req)
		if err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		end := settlement("x", "")
		end.Owner, end.Epoch, end.State = owner, a.Record.Epoch, dedupe.NotRun
		if v, err := s.Settle(t.Context(), end); err != nil || v != dedupe.Settled {
			t.Fatal(v, err)
		}
		if want := a.Record.Epoch + 1; s.RoundTrips()-before != uint64(want) { // one that is not running is looked at first
			t.Errorf("epoch %d: %d round trips, want %d", a.Record.Epoch, s.RoundTrips()-before, want)
		}
	}
}

// What cannot be indexed is not claimed, nor is anything else of its step done.
func TestWhatCannotBeIndexedIsNotClaimed(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	claimAbout(t, s, "before", 24*time.Hour)
	name := indexesOf(srv)[0]
	srv.Do("set", name, "no index")
	req := request("x", tool.NonIdempotent)
	req.Terms, req.Draw = []dedupe.Term{{1}}, dedupe.Draw{Counter: "p", MaxCalls: 2}
	if a, err := s.Admit(t.Context(), req); !dedupe.IsCorrupt(err) {
		t.Errorf("claimed: %v, %v", a.Verdict, err)
	}
	if keys := srv.Do("keys", "*"); len(keys.([]any)) != 2 {
		t.Errorf("there are %q", keys)
	}
	if page, err := s.Find(t.Context(), dedupe.Search{Tenant: "acme", Term: dedupe.Term{1}, Most: 100}); !dedupe.IsCorrupt(err) {
		t.Errorf("found: %+v, %v", page, err)
	}
	srv.Do("del", name)
	if a, err := s.Admit(t.Context(), req); err != nil || a.Verdict != dedupe.Won {
		t.Errorf("then: %v, %v", a.Verdict, err)
	}
}

// A record that cannot be read is found, and says so; the others are as they are.
func TestFindingCorruptRecords(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	name := func(id string) string { return RecordKey("sidecall:", request(id, 0).Key) }
	for _, id := range []string{"whole", "state", "short", "future", "list"} {
		claimAbout(t, s, id, time.Hour)
	}
	s = open(t, Options{Addrs: []string{srv.Addr}})
	srv.Do("setrange", name("state"), "1", "\x09")
	srv.Do("set", name("short"), "\x01")
	srv.Do("set", name("future"), "\x09\x02\x00\x00")
	srv.Do("del", name("list"))
	srv.Do("rpush", name("list"), "1")
	srv.Do("zadd", indexesOf(srv)[0], 0, "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00what is no entry")
	found := findAll(t, s)
	if len(found) != 6 {
		t.Errorf("found are %+v", found)
	}
	for _, call := range found {
		switch id := call.Key.ID; {
		case id == "whole":
			if call.Err != nil || call.Record.State != dedupe.Claimed {
				t.Errorf("%+v", call)
			}
		case id == "future":
			if !errors.Is(call.Err, dedupe.ErrLayout) {
				t.Errorf("%+v", call)
			}
		case !errors.Is(call.Err, dedupe.ErrCorrupt) || call.Record.State != dedupe.Absent:
			t.Errorf("%+v", call)
		}
	}
}

// A call that is claimed again and again has one entry, however soon that is: the time by which it
// is decided may be a little behind that of the server.
func TestOneEntryOfACallThatIsClaimedAgainAtOnce(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	req := request("x", tool.NonIdempotent)
	req.Terms = []dedupe.Term{{1}}
	for i := range 2000 {
		req.Owner = fmt.Sprint(i)
		a, err := s.Admit(t.Context(), req)
		if err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		end := settlement("x", "")
		end.Owner, end.Epoch, end.State = req.Owner, a.Record.Epoch, dedupe.NotRun
		if v, err := s.Settle(t.Context(), end); err != nil || v != dedupe.Settled {
			t.Fatal(v, err)
		}
	}
	if n := srv.Do("zcard", indexesOf(srv)[0]); n != int64(1) {
		t.Errorf("it has %d entries", n)
	}
}
