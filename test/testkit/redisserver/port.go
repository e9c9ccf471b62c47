package redisserver

import (
	"testing"

	"github.com/sidecall/sidecall/test/testkit/ports"
)

// busOffset is how far the port of a Cluster's bus is from that of its node.
const busOffset = 10_000

// freePort returns a loopback address whose port, and that of a Cluster bus
// belonging to it, nobody listens on, and no other process gets before the test
// ends: a server that is down would not find its own again.
func freePort(tb testing.TB) string {
	tb.Helper()
	return ports.Free(tb, ports.First, ports.Last-busOffset, busOffset)
}
