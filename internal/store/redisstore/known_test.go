//go:build e2e || prove

package redisstore

import (
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/refusals"
)

// The table of call's test of the same name, on Redis: the process that made the
// records is gone, another of its instance is asked, and what runs does so in a third.
func TestAKnownIDIsAnsweredFromItsRecord(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	refusals.Run(t, refusals.Kind{Outlives: true, Shared: true, Open: func(t *testing.T) dedupe.Store {
		t.Helper()
		s := New(Options{Addrs: []string{srv.Addr}})
		return s
	}})
}
