package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/server/mcp"
)

const defaultAddr = "tcp://127.0.0.1:8470"

// addrEnv is where a sidecar is asked for when a command line does not say.
const addrEnv = "SIDECALL_ADDR"

// addrFlag adds --addr to a command that talks to a running sidecar.
func addrFlag(cmd *cobra.Command, addr *string) {
	cmd.Flags().StringVar(addr, "addr", cmp.Or(os.Getenv(addrEnv), defaultAddr), "address of the sidecar: tcp://host:port or unix:///path; without it "+addrEnv)
}

// withConnection runs do with a client of the sidecar at addr.
func withConnection(addr string, do func(*sidecall.Client) error) (err error) {
	if !dialable(addr) {
		return fail(exitUsage, fmt.Errorf("%s %q: want tcp://host:port or unix:///path", saidBy(addr), addr))
	}
	client, err := sidecall.Dial(addr)
	if err != nil {
		return fail(exitUsage, fmt.Errorf("%s %q: %w", saidBy(addr), addr, err))
	}
	defer func() {
		if e := client.Close(); err == nil && e != nil {
			err = fail(exitUnavailable, e)
		}
	}()
	return do(client)
}

// dialable refuses what gRPC would take for something else: a host without a port for
// one with 443, what stands before a path that is not absolute for an authority.
func dialable(addr string) bool {
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		return strings.HasPrefix(path, "/")
	}
	address, ok := strings.CutPrefix(addr, "tcp://")
	_, port, err := net.SplitHostPort(address)
	return ok && err == nil && port != ""
}

// saidBy is who named an address: the flag, unless the environment says the same.
func saidBy(addr string) string {
	for _, name := range []string{addrEnv, operatorEnv} {
		if os.Getenv(name) == addr && addr != "" {
			return name
		}
	}
	return "--addr"
}

// What may have become of a request whose answer is lost.
const (
	lostList       = "so nothing is known: ask again"
	lostCall       = "so a call may have run: only the same ids are safe to send again"
	lostDecision   = "so the call may be decided or not: look at it again"
	lostResolution = "so the call may be settled or not: look at it again"
)

// mayRun reports whether a request that was not answered may have been acted on: it was sent, and
// the sidecar has not refused it as it is.
func mayRun(s *status.Status) bool {
	switch s.Code() {
	case codes.InvalidArgument, codes.PermissionDenied:
		return false
	case codes.Unavailable:
		return !mcp.Unconnected(s.Err())
	case codes.Internal:
		return !unsendable(s.Message())
	default:
		return true
	}
}

// unsendable reports that the transport says that a request cannot be written.
func unsendable(message string) bool { return strings.Contains(message, "error while marshaling") }

// rpcError makes a readable error of a gRPC status. lost is what may have become
// of the request when there was no answer.
func rpcError(addr, lost string, err error) error {
	s := status.Convert(err)
	switch s.Code() {
	case codes.InvalidArgument:
		return fail(exitUsage, errors.New(s.Message()))
	case codes.NotFound, codes.FailedPrecondition, codes.Aborted:
		return fail(exitFailed, errors.New(s.Message()))
	case codes.PermissionDenied: // an address of agents was asked for what is the operator's
		return fail(exitUsage, errors.New(s.Message()))
	case codes.Canceled: // by the one who asked
		return fail(exitUnavailable, fmt.Errorf("broken off before the sidecar had answered, %s", lost))
	case codes.Unavailable:
		return fail(exitUnavailable, unavailable(addr, lost, s))
	case codes.Internal:
		if unsendable(s.Message()) {
			return fail(exitUsage, errors.New("what the command line, or a file that it names, says is not UTF-8: nothing was sent"))
		}
		fallthrough
	default:
		return fail(exitUnavailable, fmt.Errorf("%s: %s", s.Code(), s.Message()))
	}
}

// unavailable tells apart who says so: the sidecar itself, or the transport,
// before it was connected or in the middle of the request. What nobody knows
// here counts as the last, which promises the least.
func unavailable(addr, lost string, s *status.Status) error {
	switch message, unconnected := s.Message(), mcp.Unconnected(s.Err()); {
	case strings.HasPrefix(message, "the sidecar "), strings.HasPrefix(message, "the store "):
		return errors.New(message)
	case unconnected && strings.Contains(message, "permission denied"):
		return fmt.Errorf("this user may not open %s: it is for the user of the sidecar, and root (%s)", addr, message)
	case unconnected:
		return fmt.Errorf("no sidecar answers at %s: start one with `sidecall serve`, or name another with --addr (%s)", addr, message)
	default:
		return fmt.Errorf("the sidecar at %s went away before it had answered, %s (%s)", addr, lost, message)
	}
}
