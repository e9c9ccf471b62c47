package server

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/call"
	"github.com/sidecall/sidecall/call/explain"
	"github.com/sidecall/sidecall/call/result"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/output"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Service is the ToolService of a sidecar: it turns requests into calls, and
// nothing else.
type Service struct {
	sidecallv1.UnimplementedToolServiceServer

	Executor *call.Executor
}

// ExecuteTool runs one call.
func (s *Service) ExecuteTool(ctx context.Context, req *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
	if err := checkRequest(req); err != nil {
		return nil, err
	}
	return s.Executor.Execute(ctx, call.NewRequest(tenant(ctx), req)), nil
}

// ExecuteTools runs the calls of one assistant turn.
func (s *Service) ExecuteTools(ctx context.Context, req *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
	if most := s.Executor.Catalog.Snapshot().Limits.MaxBatch; len(req.GetCalls()) > most {
		return nil, status.Errorf(codes.InvalidArgument,
			"calls: %d calls in one request, at most %d are taken; send the rest in a further request", len(req.GetCalls()), most)
	}
	calls := make([]call.Request, len(req.GetCalls()))
	for i, one := range req.GetCalls() {
		if err := checkRequest(one); err != nil {
			return nil, status.Errorf(status.Code(err), "calls[%d].%s", i, status.Convert(err).Message())
		}
		calls[i] = call.NewRequest(tenant(ctx), one)
	}
	return &sidecallv1.ExecuteToolsResponse{Results: s.Executor.ExecuteBatch(ctx, calls)}, nil
}

// ListTools lists the tools that a profile may call, by name.
func (s *Service) ListTools(_ context.Context, req *sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error) {
	snapshot := s.Executor.Catalog.Snapshot()
	profile, ok := snapshot.Profiles.Find(req.GetProfile())
	if !ok {
		refusal := explain.UnknownProfile(req.GetProfile(), snapshot.Profiles.Names())
		return nil, status.Errorf(codes.InvalidArgument, "profile: %s. %s", refusal.Constraint, refusal.Hint)
	}
	res := &sidecallv1.ListToolsResponse{}
	for _, route := range snapshot.Routes(profile) {
		res.Tools = append(res.Tools, result.Tool(&route.Tool))
	}
	for name, reason := range snapshot.Down() {
		res.UnavailableBackends = append(res.UnavailableBackends, &sidecallv1.UnavailableBackend{Name: name, Reason: reason})
	}
	return res, nil
}

// GetExecution returns the record of a call.
func (s *Service) GetExecution(ctx context.Context, req *sidecallv1.GetExecutionRequest) (*sidecallv1.Execution, error) {
	key, err := keyOf(ctx, req)
	if err != nil {
		return nil, err
	}
	execution, err := s.Executor.Execution(ctx, key)
	return execution, statusOf(err)
}

// ReadOutput pages through a kept output.
func (s *Service) ReadOutput(ctx context.Context, req *sidecallv1.ReadOutputRequest) (*sidecallv1.ReadOutputResponse, error) {
	if req.GetOutputRef() == "" {
		return nil, status.Error(codes.InvalidArgument, "output_ref: is required: send the one from truncation.output_ref")
	}
	kept, err := s.Executor.Dedupe.Output(ctx, tenant(ctx), req.GetOutputRef())
	switch {
	case errors.Is(err, dedupe.ErrNoOutput):
		return nil, status.Errorf(codes.NotFound, "no output %q: it has expired, or never was", req.GetOutputRef())
	case err != nil:
		return nil, storeStatus(ctx)
	}
	page, invalid := output.Page(kept.Data, req.GetOffset(), req.GetLimit(), req.GetPattern())
	if invalid != nil {
		return nil, status.Error(codes.InvalidArgument,
			fmt.Sprintf("%s: %s (received %s). %s", invalid.Field, invalid.Constraint, invalid.Received, invalid.Hint))
	}
	return &sidecallv1.ReadOutputResponse{
		Content: page.Content, TotalChars: page.TotalChars, NextOffset: page.NextOffset, Complete: kept.Complete,
	}, nil
}
