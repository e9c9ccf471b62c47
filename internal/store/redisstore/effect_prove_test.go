//go:build prove && !e2e

package redisstore

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// The conformance suite on one server, for the mutants of the scripts, which run the
// cases about effects; the whole of it, on every kind of Redis, is an e2e test.
func TestOneServer(t *testing.T) {
	t.Parallel()
	addr := redisserver.Start(t, redisserver.Options{}).Addr
	var n atomic.Int32
	storetest.Run(t, storetest.Harness{
		Lease: 400 * time.Millisecond,
		Open: func(t testing.TB) dedupe.Store {
			s := New(Options{Addrs: []string{addr}, KeyPrefix: fmt.Sprintf("sidecall:case-%d:", n.Add(1))})
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		},
	})
}
