package server

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/internal/receipt"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// maxProblems bounds the problems of a response, maxProblem each of them, in characters.
	maxProblems = 100
	maxProblem  = 2000
)

// VerifyReceipts finds out whether anything was changed or left out in what is kept of the
// effects of a conversation.
func (o *Operator) VerifyReceipts(ctx context.Context, req *sidecallv1.VerifyReceiptsRequest) (*sidecallv1.VerifyReceiptsResponse, error) {
	if req.GetConversationId() == "" {
		return nil, status.Error(codes.InvalidArgument, "conversation_id: is missing")
	}
	noted, err := receipt.ParseNoted(req.GetNotedHead())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "noted_head: %v", err)
	}
	found, head, more, err := o.Executor.Records().VerifyReceipts(ctx, tenant(ctx), req.GetConversationId(), noted)
	if err != nil {
		return nil, statusOf(err)
	}
	if head.Count == 0 && found.Calls == 0 && len(found.Problems) == 0 {
		if _, _, err := o.Executor.Book.Load(ctx, conversationKey(ctx, req), 0, 1); err != nil {
			return nil, transcriptStatus(ctx, err)
		}
	}
	res := &sidecallv1.VerifyReceiptsResponse{
		ConversationId: req.GetConversationId(),
		Receipts:       head.Count, Checked: found.Checked, Forgotten: found.Forgotten, More: more, Enabled: o.Executor.Dedupe.LeavesReceipts(),
	}
	if head.Count > 0 {
		res.Head = receipt.Noted{Count: head.Count, Hash: head.Hash}.String()
	}
	if !found.Since.IsZero() {
		res.Since = timestamppb.New(found.Since)
	}
	for _, problem := range found.Problems[:min(len(found.Problems), maxProblems)] {
		res.Problems = append(res.Problems, carried(tool.Shorten(problem, maxProblem)))
	}
	res.ProblemsLeft = int32(len(found.Problems) - len(res.GetProblems()))
	return res, nil
}
