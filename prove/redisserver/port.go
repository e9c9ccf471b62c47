package redisserver

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// busOffset is how far the port of a Cluster's bus is from that of its node.
const busOffset = 10_000

// Ports of servers and of their buses lie below those that Linux gives to
// outgoing connections (from 32768), so that nobody takes one between two lives
// of a server.
const firstPort, lastPort = 10_000, 32_767 - busOffset

// freePort returns a loopback address whose port nobody listens on now, and
// neither on that of a Cluster bus belonging to it.
func freePort(tb testing.TB) string {
	tb.Helper()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if last = errors.Join(free(port), free(port+busOffset)); last == nil {
			return loopback(port)
		}
	}
	tb.Fatalf("no free port: %v", last)
	return ""
}

func free(port int) error {
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return err
	}
	return listener.Close()
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
