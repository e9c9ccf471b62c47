//go:build e2e || prove

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

// What every store must do, on one server; TestEveryKindOfRedis has the other kinds.
func TestOneServer(t *testing.T) {
	t.Parallel()
	conformance(t, Options{Addrs: []string{redisserver.Start(t, redisserver.Options{}).Addr}}, false)
}

func conformance(t *testing.T, options Options, brief bool) {
	t.Helper()
	var n atomic.Int32
	storetest.Run(t, storetest.Harness{
		Lease: 400 * time.Millisecond,
		Brief: brief,
		Open: func(t testing.TB) dedupe.Store {
			// Each case has its own keys on the same servers.
			own := options
			own.KeyPrefix = fmt.Sprintf("sidecall:case-%d:", n.Add(1))
			return open(t, own)
		},
	})
}
