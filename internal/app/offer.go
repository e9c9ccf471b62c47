package app

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/server"
)

// Offer is what a config offers to agents, read off the file: nothing is started,
// connected or stored. Tools that a backend says itself it has are not in it; the
// backend is told of as unavailable.
type Offer struct {
	generation *generation
	service    server.Service
}

// NewOffer reads the offer off a config. The error is config.Problems, all that
// Start would find wrong with it. Whoever makes an Offer closes it.
func NewOffer(cfg *config.Config, version string) (*Offer, error) {
	g, err := newGeneration(cfg, surroundings{logger: slog.New(slog.DiscardHandler), version: version})
	if err != nil {
		return nil, err
	}
	readOutput, err := builtIn(result.Outputs{}) // nobody calls it here
	if err != nil {
		return nil, errors.Join(err, g.close(context.Background()))
	}
	g.serve(readOutput)
	for name := range g.tools.Snapshot().Undiscovered() {
		g.tools.SetDown(name, "it says itself which tools it has, and was not asked: a running sidecar knows them")
	}
	executor := &call.Executor{Parts: call.Parts{Catalog: catalog.New(g.tools)}}
	return &Offer{g, server.Service{Executor: executor}}, nil
}

// ListTools answers as a sidecar of the config does, before its backends have said
// which tools they have. Its errors are gRPC statuses.
func (o *Offer) ListTools(ctx context.Context, req *sidecallv1.ListToolsRequest, _ ...grpc.CallOption) (*sidecallv1.ListToolsResponse, error) {
	return o.service.ListTools(ctx, req)
}

// GetInstructions likewise.
func (o *Offer) GetInstructions(ctx context.Context, req *sidecallv1.GetInstructionsRequest, _ ...grpc.CallOption) (*sidecallv1.GetInstructionsResponse, error) {
	return o.service.GetInstructions(ctx, req)
}

// Close ends what was built.
func (o *Offer) Close(ctx context.Context) error { return o.generation.retire(ctx) }
