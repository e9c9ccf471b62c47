package server

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/output"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Limits on what identifies a call. They bound what a request can make the
// store and the log hold.
const (
	maxIDBytes    = 256
	maxLabels     = 16
	maxLabelBytes = 256
)

// Service is the ToolService of a sidecar: it turns requests into calls, and
// nothing else.
type Service struct {
	sidecallv1.UnimplementedToolServiceServer

	Executor *Executor
	Drain    *Drain
	MaxBatch int
}

// tenant is the identity that records belong to. Listeners that do not
// authenticate serve one tenant.
func tenant(context.Context) string { return "" }

// ExecuteTool runs one call.
func (s *Service) ExecuteTool(ctx context.Context, req *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
	leave, err := s.Drain.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := checkRequest(req); err != nil {
		return nil, err
	}
	return s.Executor.Execute(ctx, tenant(ctx), req), nil
}

// ExecuteTools runs the calls of one assistant turn.
func (s *Service) ExecuteTools(ctx context.Context, req *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
	leave, err := s.Drain.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if len(req.GetCalls()) > s.MaxBatch {
		return nil, status.Errorf(codes.InvalidArgument,
			"calls: %d calls in one request, at most %d are taken; send the rest in a further request", len(req.GetCalls()), s.MaxBatch)
	}
	for i, call := range req.GetCalls() {
		if err := checkRequest(call); err != nil {
			return nil, status.Errorf(status.Code(err), "calls[%d].%s", i, status.Convert(err).Message())
		}
	}
	return &sidecallv1.ExecuteToolsResponse{
		Results: s.Executor.ExecuteBatch(ctx, tenant(ctx), req.GetCalls()),
	}, nil
}

// checkRequest refuses what only the program can correct.
func checkRequest(req *sidecallv1.ExecuteToolRequest) error {
	switch {
	case req.GetToolUseId() == "":
		return status.Error(codes.InvalidArgument, "tool_use_id: is required: send the id that the provider gave the call")
	case req.GetToolName() == "":
		return status.Error(codes.InvalidArgument, "tool_name: is required: send the name that the model called")
	case len(req.GetLabels()) > maxLabels:
		return status.Errorf(codes.InvalidArgument, "labels: %d labels, at most %d are taken", len(req.GetLabels()), maxLabels)
	case req.GetMaxOutputChars() < 0:
		return status.Error(codes.InvalidArgument, "max_output_chars: must not be negative")
	case req.GetTimeout() != nil && (req.GetTimeout().CheckValid() != nil || req.GetTimeout().AsDuration() < 0):
		return status.Error(codes.InvalidArgument, "timeout: must be a duration that is not negative")
	}
	for name, id := range map[string]string{
		"tool_use_id": req.GetToolUseId(), "conversation_id": req.GetConversationId(),
		"turn_id": req.GetTurnId(), "prompt_id": req.GetPromptId(),
	} {
		if len(id) > maxIDBytes {
			return status.Errorf(codes.InvalidArgument, "%s: %d bytes, at most %d are taken", name, len(id), maxIDBytes)
		}
	}
	for k, v := range req.GetLabels() {
		if len(k) > maxLabelBytes || len(v) > maxLabelBytes {
			return status.Errorf(codes.InvalidArgument, "labels: a label has more than %d bytes", maxLabelBytes)
		}
	}
	return nil
}

// ListTools lists the tools that a profile may call, by name.
func (s *Service) ListTools(_ context.Context, req *sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error) {
	profile, refusal := s.Executor.Profiles.find(req.GetProfile())
	if refusal != nil {
		return nil, status.Errorf(codes.InvalidArgument, "profile: %s. %s", refusal.Constraint, refusal.Hint)
	}
	res := &sidecallv1.ListToolsResponse{}
	for _, route := range s.Executor.Registry.Routes() {
		if profile.Allows(route.Tool.Name) {
			res.Tools = append(res.Tools, protoTool(&route.Tool))
		}
	}
	for name, reason := range s.Executor.Registry.Down() {
		res.UnavailableBackends = append(res.UnavailableBackends, &sidecallv1.UnavailableBackend{Name: name, Reason: reason})
	}
	return res, nil
}

// GetExecution returns the record of a call.
func (s *Service) GetExecution(ctx context.Context, req *sidecallv1.GetExecutionRequest) (*sidecallv1.Execution, error) {
	if req.GetToolUseId() == "" {
		return nil, status.Error(codes.InvalidArgument, "tool_use_id: is required")
	}
	record, err := s.Executor.Dedupe.Lookup(ctx, dedupe.Key{
		Tenant: tenant(ctx), Conversation: req.GetConversationId(), Turn: req.GetTurnId(), ID: req.GetToolUseId(),
	})
	if err != nil {
		return nil, storeStatus(ctx)
	}
	if record.State == dedupe.Absent {
		return nil, status.Errorf(codes.NotFound,
			"no record of tool_use_id %q with this conversation_id and turn_id: it was never started here, or its retention is over", req.GetToolUseId())
	}
	execution := protoExecution(record)
	if len(record.Result) > 0 {
		execution.Result = &sidecallv1.ExecuteToolResponse{}
		if err := proto.Unmarshal(record.Result, execution.GetResult()); err != nil {
			return nil, status.Errorf(codes.DataLoss, "the recorded result cannot be read: %v", err)
		}
	}
	return execution, nil
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

// storeStatus is for the rpcs that are nothing but a look into the store.
func storeStatus(ctx context.Context) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Unavailable, "the store is down; nothing was changed, send the request again later")
}
