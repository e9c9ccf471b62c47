package server

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/timeline"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// defaultSample and maxSample are how many conversations an audit reads.
	defaultSample = 50
	maxSample     = 10_000
	// maxAudited bounds the rows of each list of an audit: with their conversations they make no
	// more than a client receives.
	maxAudited = 200
)

// AuditConversations counts what became of errors in a sample of conversations.
func (o *Operator) AuditConversations(ctx context.Context, req *sidecallv1.AuditConversationsRequest) (*sidecallv1.AuditConversationsResponse, error) {
	most := cmp.Or(int(req.GetSample()), defaultSample)
	switch {
	case most < 1 || most > maxSample:
		return nil, status.Errorf(codes.InvalidArgument, "sample: is %d: expected 1 to %d, or 0 for %d", most, maxSample, defaultSample)
	case req.GetSince() == nil:
		return nil, status.Error(codes.InvalidArgument, "since: is missing: an instant")
	case !req.GetSince().IsValid():
		return nil, status.Error(codes.InvalidArgument, "since: is no instant")
	}
	res := &sidecallv1.AuditConversationsResponse{
		RecordsKept: durationpb.New(o.Executor.Dedupe.Retention()), ConversationsKept: durationpb.New(o.Executor.Book.Limits.TTL),
	}
	sample := timeline.NewSample(req.GetSeed(), most)
	if err := o.offer(ctx, req.GetSince().AsTime(), sample, res); err != nil {
		return nil, transcriptStatus(ctx, err)
	}
	audit := timeline.Audit{Tool: req.GetToolName()}
	for _, id := range sample.Picked() {
		s, err := o.story(ctx, conversation.Key{Tenant: tenant(ctx), ID: id})
		switch status.Code(err) {
		case codes.OK:
		case codes.DataLoss:
			res.Unreadable++
			continue
		default:
			return nil, err
		}
		if s.head.Version == 0 { // its time was over meanwhile
			res.Unreadable++
			continue
		}
		res.Sampled++
		audit.Add(id, s.Timeline)
	}
	tellAudit(audit.Report(), res)
	return res, nil
}

// offer offers the conversations of a tenant to a sample that were appended to since then.
func (o *Operator) offer(ctx context.Context, since time.Time, sample *timeline.Sample, res *sidecallv1.AuditConversationsResponse) error {
	for from := ""; ; {
		found, next, err := o.Executor.Book.List(ctx, tenant(ctx), from, maxConversations)
		if err != nil {
			return err
		}
		for i := range found {
			switch one := &found[i]; {
			case one.Err != nil:
				res.Unreadable++
			case !one.Head.UpdatedAt.Before(since):
				res.Found++
				sample.Offer(one.ID)
			}
		}
		if from = next; next == "" {
			return nil
		}
	}
}

// tellAudit writes down what an audit has found, the worst of it where it is much.
func tellAudit(found timeline.Report, res *sidecallv1.AuditConversationsResponse) {
	res.Prompts, res.Counts = int64(found.Prompts), toldCounts(found.Counts)
	res.Recorded, res.Forgotten, res.Unrecorded = int64(found.Recorded), int64(found.Forgotten), int64(found.Unrecorded)
	for _, of := range found.Tools[:min(len(found.Tools), maxAudited)] {
		res.Tools = append(res.Tools, &sidecallv1.AuditedTool{ToolName: carried(of.Tool), Counts: toldCounts(of.Counts)})
	}
	for _, m := range found.Messages[:min(len(found.Messages), maxAudited)] {
		res.Messages = append(res.Messages, &sidecallv1.AuditedMessage{
			ToolName: carried(m.Tool), Code: string(m.Code), Example: carried(m.Example),
			Counts: toldCounts(m.Counts), Vague: m.Vague.Reasons(), ConversationIds: m.Conversations,
		})
	}
	res.ToolsLeft, res.MessagesLeft = int32(len(found.Tools)-len(res.GetTools())+found.ToolsLeft), int32(len(found.Messages)-len(res.GetMessages())+found.MessagesLeft)
}
