//go:build failpoint

package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/sidecall/sidecall/internal/failpoint"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// watchSent returns the option that says when a result was handed to the
// connection.
func watchSent() []grpc.ServerOption { return []grpc.ServerOption{grpc.StatsHandler(sent{})} }

type sent struct{}

func (sent) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (sent) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sent) HandleConn(context.Context, stats.ConnStats)                       {}

func (sent) HandleRPC(_ context.Context, event stats.RPCStats) {
	payload, ok := event.(*stats.OutPayload)
	if !ok {
		return
	}
	if _, ok := payload.Payload.(*sidecallv1.ExecuteToolResponse); ok {
		failpoint.Hit(failpoint.ResultSent)
	}
}
