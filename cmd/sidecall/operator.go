package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/internal/config"
)

// operatorEnv is where the socket of operators is when a command line does not
// say.
const operatorEnv = "SIDECALL_OPERATOR"

// operatorAt says where the sidecar is to be found by those who look after it.
type operatorAt struct{ addr, config, state string }

// flags adds --addr and --config to a command that is an operator's.
func (o *operatorAt) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.addr, "addr", "", "the sidecar's operator socket, unix:///path; without it "+operatorEnv)
	cmd.Flags().StringVarP(&o.config, "config", "c", "", "the config file of the sidecar, which has the socket; without it and --addr ./"+defaultConfig)
	cmd.Flags().StringVar(&o.state, "state", "", "the directory where wrappers record, in the place of a sidecar: see sidecall wrap")
	cmd.MarkFlagsMutuallyExclusive("addr", "config", "state")
}

// address is the socket: what --addr says, the config that --config names, what the
// environment says, the config in the working directory, in this order.
func (o *operatorAt) address() (string, error) {
	switch set := os.Getenv(operatorEnv); {
	case o.addr != "":
		return o.addr, nil
	case o.config != "":
		return operatorOf(o.config)
	case set != "":
		return set, nil
	}
	if _, err := os.Stat(defaultConfig); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("which sidecar? --addr unix:///path names its operator socket, --config FILE the config that has it; or set %s", operatorEnv)
	}
	return operatorOf(defaultConfig)
}

// open is the socket as address says, or that of a sidecar that looks after what wrappers record, until
// stop.
func (o *operatorAt) open(ctx context.Context) (addr string, stop func(), err error) {
	if o.state != "" {
		if addr, stop, err = startBeside(ctx, o.state); err != nil {
			return "", nil, fail(startCode(err), err)
		}
		return addr, stop, nil
	}
	addr, err = unlessAsked(ctx, o.address)
	return addr, func() {}, err
}

// operatorOf is the operator socket of a config file. A path in it that is relative
// is taken from here, as serve takes it from where it was started.
func operatorOf(path string) (string, error) {
	cfg, err := config.Load(path)
	if err != nil {
		return "", fmt.Errorf("%w\n--addr unix:///path names the operator socket without the config", err)
	}
	address, off := cfg.OperatorAddress()
	if off != "" {
		return "", fmt.Errorf("%s: the operator's surface is %s", path, off)
	}
	return address, nil
}

// operating is a command of those who look after a sidecar, and the sidecar.
type operating struct {
	cmd    *cobra.Command
	client *sidecall.Client
	at     operatorAt
	addr   string // of the operator's surface, from at
	tenant string
	asJSON bool
	lost   string // what may have become of a request whose answer is lost
}

// flags adds those that each such command has. whose says what a tenant is asked for.
func (o *operating) flags(cmd *cobra.Command, whose string) {
	o.at.flags(cmd)
	cmd.Flags().StringVar(&o.tenant, "tenant", "", whose+": the profiles of a listener that has its own, as in reader,writer")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
}

// run runs a command against the sidecar that its flags name.
func (o *operating) run(cmd *cobra.Command, do func() error) (err error) {
	o.cmd = cmd
	addr, stop, err := o.at.open(cmd.Context())
	if err != nil {
		return err
	}
	defer stop()
	o.addr = addr
	if cmd.Flags().Changed("tenant") {
		cmd.SetContext(metadata.AppendToOutgoingContext(cmd.Context(), "sidecall-tenant", o.tenant))
	}
	return withConnection(o.addr, func(client *sidecall.Client) error {
		o.client = client
		return do()
	})
}

// failed makes a readable error of a gRPC status; nil of none.
func (o *operating) failed(err error) error {
	if err == nil {
		return nil
	}
	if status.Code(err) == codes.Unimplemented {
		return fail(exitUnavailable, fmt.Errorf("what answers at %s has no operator's surface: is it the operator socket of a sidecar of this version?", o.addr))
	}
	return rpcError(o.addr, o.lost, err)
}
