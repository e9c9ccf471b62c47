//go:build e2e

package redisstore

import (
	"fmt"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// A receipt costs no round trip, as long as the sidecars of a conversation do not take turns:
// then it costs the one that the count of its prompt costs as well.
func TestRoundTripsOfAReceipt(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	one, two := open(t, Options{Addrs: []string{srv.Addr}}), open(t, Options{Addrs: []string{srv.Addr}})
	calls := 0
	trips := func(s *Store, receipt bool, counter string) uint64 {
		t.Helper()
		calls++
		req := request(fmt.Sprint("call ", calls), tool.NonIdempotent)
		req.Key.Conversation, req.Receipt, req.Draw.Counter = "c", receipt, counter
		end := settlement(req.Key.ID, "paid")
		end.Key, end.Receipt = req.Key, receipt
		before := s.RoundTrips()
		if a, err := s.Admit(t.Context(), req); err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		if v, err := s.Settle(t.Context(), end); err != nil || v != dedupe.Settled {
			t.Fatal(v, err)
		}
		return s.RoundTrips() - before
	}
	for _, s := range []*Store{one, two} { // the scripts are known after the first
		trips(s, true, "p")
	}
	trips(one, true, "p")
	for range 5 {
		if got := trips(one, true, "p"); got != 2 {
			t.Errorf("%d round trips for a call", got)
		}
	}
	for range 3 {
		for _, s := range []*Store{two, one} {
			if counted := trips(s, false, "p"); counted != 3 {
				t.Errorf("%d round trips for a call that is counted", counted)
			}
		}
		for _, s := range []*Store{two, one} {
			if receipted := trips(s, true, "p"); receipted != 3 {
				t.Errorf("%d round trips for a call that is counted, and leaves a receipt", receipted)
			}
		}
	}
}
