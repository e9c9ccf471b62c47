package main

import (
	"github.com/spf13/cobra"

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
	return operatorError(r.addr, lostResolution, err)
}
