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

// freePort returns a loopback address whose port, and that of a Cluster bus
// belonging to it, nobody listens on, and no other server of this package gets
// before the test ends: a server that is down would not find its own again.
func freePort(tb testing.TB) string {
	tb.Helper()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		var held []net.Listener
		if held, last = hold(port, port+busOffset); last == nil {
			tb.Cleanup(func() {
				if err := release(held); err != nil {
					tb.Error(err)
				}
			})
			return loopback(port)
		}
	}
	tb.Fatalf("no free port: %v", last)
	return ""
}

// hold takes ports for as long as the returned listeners are open: each stands
// for a port in all processes of the machine, and ends with its own.
func hold(ports ...int) (held []net.Listener, err error) {
	for _, port := range ports {
		sign, err := net.Listen("unix", "@sidecall-redisserver-"+strconv.Itoa(port))
		if err != nil {
			return nil, errors.Join(err, release(held))
		}
		held = append(held, sign)
		if err := free(port); err != nil {
			return nil, errors.Join(err, release(held))
		}
	}
	return held, nil
}

func release(held []net.Listener) error {
	var errs []error
	for _, sign := range held {
		errs = append(errs, sign.Close())
	}
	return errors.Join(errs...)
}

// free fails when somebody listens on a port.
func free(port int) error {
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return err
	}
	return listener.Close()
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
