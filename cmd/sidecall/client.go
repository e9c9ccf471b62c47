package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const defaultAddr = "tcp://127.0.0.1:8470"

// maxReply is the largest reply that the command line takes.
const maxReply = 64 << 20

// addrFlag adds --addr to a command that talks to a running sidecar.
func addrFlag(cmd *cobra.Command, addr *string) {
	cmd.Flags().StringVar(addr, "addr", defaultAddr, "address of the sidecar: tcp://host:port or unix:///path")
}

// dial connects to a sidecar. gRPC's own retries are off: whether a call may be
// sent again is the sidecar's decision.
func dial(addr string) (*grpc.ClientConn, error) {
	target := addr
	if rest, ok := strings.CutPrefix(addr, "tcp://"); ok {
		target = "passthrough:///" + rest
	} else if !strings.HasPrefix(addr, "unix://") {
		return nil, fail(exitUsage, fmt.Errorf("--addr %q: want tcp://host:port or unix:///path", addr))
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)))
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("--addr %q: %w", addr, err))
	}
	return conn, nil
}

// withClient runs do against the sidecar at addr.
func withClient(addr string, do func(sidecallv1.ToolServiceClient) error) (err error) {
	conn, err := dial(addr)
	if err != nil {
		return err
	}
	defer func() {
		if e := conn.Close(); err == nil && e != nil {
			err = fail(exitUnavailable, e)
		}
	}()
	return do(sidecallv1.NewToolServiceClient(conn))
}

// rpcError makes a readable error of a gRPC status.
func rpcError(addr string, err error) error {
	s := status.Convert(err)
	if s.Code() == codes.Unavailable {
		return fail(exitUnavailable, fmt.Errorf("no sidecar answers at %s: start one with `sidecall serve`, or name another with --addr (%s)", addr, s.Message()))
	}
	return fail(exitUnavailable, fmt.Errorf("%s: %s", s.Code(), s.Message()))
}
