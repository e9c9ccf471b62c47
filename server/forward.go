package server

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/forward"
	"github.com/sidecall/sidecall/internal/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// forwardTime bounds one request that is handed on.
const forwardTime = 30 * time.Second

// MCP is the McpService of a sidecar.
type MCP struct {
	sidecallv1.UnimplementedMcpServiceServer

	Executor *call.Executor
	Offered  []string

	// bytes is what answers take room of; nil is without a bound.
	bytes  *limit.Bytes
	unread *backlog
	asked  *questionsAsked
	// following has a place for each who follows.
	following chan struct{}
	followers *followers
}

// Forward hands a request on.
func (m *MCP) Forward(ctx context.Context, req *sidecallv1.ForwardRequest) (*sidecallv1.ForwardResponse, error) {
	lease := m.Executor.Catalog.Lease()
	defer lease.Release()
	profile, err := profileOf(lease.Snapshot, req.GetProfile(), m.Offered)
	if err != nil {
		return nil, err
	}
	servers := forward.Of(lease.Routes(profile))
	switch {
	case len(servers) == 0:
		return nil, status.Error(codes.Unimplemented, "no MCP server is behind this profile")
	case req.GetMethod() == "":
		return &sidecallv1.ForwardResponse{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	var load limit.Load
	load.Of(m.bytes)
	defer load.Release()
	var result json.RawMessage
	subscribes := req.GetMethod() == methodSubscribe || req.GetMethod() == methodUnsubscribe
	if subscribes {
		result, err = m.subscription(ctx, req)
	} else {
		result, err = servers.Request(ctx, req.GetMethod(), json.RawMessage(req.GetParamsJson()), &load)
	}
	if refusal, ok := errors.AsType[*backend.Refusal](err); ok {
		encoded, err := json.Marshal(refusal)
		return &sidecallv1.ForwardResponse{ErrorJson: carried(string(encoded))}, err
	}
	if _, said := status.FromError(err); !said {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	if err != nil || subscribes {
		return &sidecallv1.ForwardResponse{ResultJson: string(result)}, err
	}
	// It had no effect, so it may be given up where too many came at the same time.
	if err := m.unread.refuse(); err != nil {
		return nil, err
	}
	return &sidecallv1.ForwardResponse{ResultJson: carried(string(result))}, nil
}

// Answer implements sidecallv1.McpServiceServer.
func (m *MCP) Answer(_ context.Context, req *sidecallv1.AnswerRequest) (*sidecallv1.AnswerResponse, error) {
	with := said{result: json.RawMessage(req.GetResultJson())}
	if req.GetResultJson() == "" {
		with.err = errors.New("the client refuses: " + req.GetRefusal())
	}
	if !m.asked.answer(req.GetQuestionId(), with) {
		return nil, status.Error(codes.NotFound, "question_id: nobody waits for an answer to that any more")
	}
	return &sidecallv1.AnswerResponse{}, nil
}
