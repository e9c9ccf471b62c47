package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sidecall/sidecall/internal/call"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Operator is the OperatorService of a sidecar: people settle calls of which
// nobody knows whether they ran, and decide about those that are held. Who they are says the
// connection that they come by, and not they: see User.
type Operator struct {
	sidecallv1.UnimplementedOperatorServiceServer

	Executor *call.Executor
	// Metrics are those of the sidecar; nil has none.
	Metrics prometheus.Gatherer

	loads chan struct{} // see maxLoading
}

// FindExecutions answers "did it run?".
func (o *Operator) FindExecutions(ctx context.Context, req *sidecallv1.FindExecutionsRequest) (*sidecallv1.FindExecutionsResponse, error) {
	res, err := o.Executor.Records().Find(ctx, tenant(ctx), req)
	return res, statusOf(err)
}

// PlanUndo lists what has happened in a conversation, and how it is undone.
func (o *Operator) PlanUndo(ctx context.Context, req *sidecallv1.PlanUndoRequest) (*sidecallv1.PlanUndoResponse, error) {
	res, err := o.Executor.Records().PlanUndo(ctx, tenant(ctx), req)
	return res, statusOf(err)
}

// ResolveExecution settles one unknown call by hand.
func (o *Operator) ResolveExecution(ctx context.Context, req *sidecallv1.ResolveExecutionRequest) (*sidecallv1.ResolveExecutionResponse, error) {
	key, err := keyOf(ctx, req)
	if err != nil {
		return nil, err
	}
	execution, err := o.Executor.Settlements().Resolve(ctx, key, userOf(ctx), req)
	if err != nil {
		return nil, statusOf(err)
	}
	return &sidecallv1.ResolveExecutionResponse{Execution: execution}, nil
}

// VerifyExecution asks the configured verification what became of an unknown
// call.
func (o *Operator) VerifyExecution(ctx context.Context, req *sidecallv1.VerifyExecutionRequest) (*sidecallv1.VerifyExecutionResponse, error) {
	key, err := keyOf(ctx, req)
	if err != nil {
		return nil, err
	}
	res, err := o.Executor.Settlements().Verify(ctx, key, userOf(ctx), req)
	return res, statusOf(err)
}

// ApproveExecution allows one held call.
func (o *Operator) ApproveExecution(ctx context.Context, req *sidecallv1.ApproveExecutionRequest) (*sidecallv1.ApproveExecutionResponse, error) {
	execution, err := o.decide(ctx, req, false)
	if err != nil {
		return nil, err
	}
	return &sidecallv1.ApproveExecutionResponse{Execution: execution}, nil
}

// DenyExecution settles one held call for good.
func (o *Operator) DenyExecution(ctx context.Context, req *sidecallv1.DenyExecutionRequest) (*sidecallv1.DenyExecutionResponse, error) {
	execution, err := o.decide(ctx, req, true)
	if err != nil {
		return nil, err
	}
	return &sidecallv1.DenyExecutionResponse{Execution: execution}, nil
}

// decision is a request that decides about a held call.
type decision interface {
	identified
	GetDecidedBy() string
	GetReason() string
	GetHold() string
	GetFingerprint() string
}

func (o *Operator) decide(ctx context.Context, req decision, deny bool) (*sidecallv1.Execution, error) {
	key, err := keyOf(ctx, req)
	if err != nil {
		return nil, err
	}
	execution, err := o.Executor.Settlements().Decide(ctx, key, userOf(ctx), call.Decision{
		By: req.GetDecidedBy(), Reason: req.GetReason(), Hold: req.GetHold(), Fingerprint: req.GetFingerprint(), Deny: deny,
	})
	if err != nil {
		return nil, statusOf(err)
	}
	return execution, nil
}
