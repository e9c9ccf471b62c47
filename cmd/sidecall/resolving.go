package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sidecall "github.com/sidecall/sidecall/clients/go"
)

// resolving is a resolve command: what its flags say, and the sidecar.
type resolving struct {
	cmd    *cobra.Command
	client *sidecall.Client
	at     operatorAt
	addr   string // of the operator's surface, from at
	asJSON bool
	limit  int

	id, conversation, turn string
	tenant, as             string
	reason, content, by    string
	isError, verify, yes   bool
	args                   string
}

// failed makes a readable error of a gRPC status.
func (r *resolving) failed(err error) error {
	if status.Code(err) == codes.Unimplemented {
		return fail(exitUnavailable, fmt.Errorf("what answers at %s has no operator's surface: is it the operator socket of a sidecar of this version?", r.addr))
	}
	return rpcError(r.addr, lostResolution, err)
}
