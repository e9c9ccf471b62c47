//go:build e2e

package redisstore

import (
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// What Now says can be compared with the instants of records.
func TestNowIsTheTimeOfTheRecords(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]Options{
		"standalone": {Addrs: []string{redisserver.Start(t, redisserver.Options{}).Addr}},
		"cluster":    {Addrs: redisserver.StartCluster(t, 3, 0).Addrs(), Cluster: true},
	} {
		s := open(t, options)
		before, err := s.Now(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		a, err := s.Admit(t.Context(), request("x", tool.NonIdempotent))
		if err != nil || a.Verdict != dedupe.Won {
			t.Fatal(a.Verdict, err)
		}
		after, err := s.Now(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// Records count whole milliseconds.
		if started := a.Record.StartedAt; started.Before(before.Add(-1e6)) || after.Before(started) {
			t.Errorf("%s: claimed at %v, between %v and %v", name, started, before, after)
		}
	}
}
