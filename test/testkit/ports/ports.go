// Package ports gives tests the TCP ports that the processes they start listen on.
package ports

import (
	"errors"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"testing"
)

// First and Last are ports below those that systems give to outgoing connections
// (RFC 6335: from 49152; Linux: from 32768). A port from that range may be free now
// and belong to some connection when the process that is to listen there starts. Beyond 10080
// there is none to which fetch (of browsers and Node) refuses to go.
const First, Last = 10_081, 32_767

// Free returns a loopback address from the ports first to last, whose port, and
// that which lies each offset behind it, nobody listens on, and no other test of
// this machine gets before this one ends: the process that it is for may be dead
// just now.
func Free(tb testing.TB, first, last int, offsets ...int) string {
	tb.Helper()
	var why error
	for range 100 {
		port := first + rand.IntN(last-first+1)
		wanted := []int{port}
		for _, offset := range offsets {
			wanted = append(wanted, port+offset)
		}
		held, err := hold(wanted...)
		if err != nil {
			why = err
			continue
		}
		tb.Cleanup(func() {
			if err := release(held); err != nil {
				tb.Error(err)
			}
		})
		return Loopback(port)
	}
	tb.Fatalf("no free port: %v", why)
	return ""
}

// Loopback is the address of a port.
func Loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// hold takes ports for as long as the returned listeners are open: each stands for
// a port in all processes of the machine, and ends with its own. Only Linux has
// such names; elsewhere a port is held by chance alone.
func hold(wanted ...int) (held []net.Listener, err error) {
	for _, port := range wanted {
		if runtime.GOOS == "linux" {
			sign, err := net.Listen("unix", "@sidecall-port-"+strconv.Itoa(port))
			if err != nil {
				return nil, errors.Join(err, release(held))
			}
			held = append(held, sign)
		}
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
	listener, err := net.Listen("tcp", Loopback(port))
	if err != nil {
		return err
	}
	return listener.Close()
}
