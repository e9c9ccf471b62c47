package server

import (
	"context"
	"errors"
	"iter"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/timeline"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// story is a conversation as it went, with what is kept of it.
type story struct {
	*timeline.Timeline

	head conversation.Head // zero where no message is kept
	more bool              // calls are left out, because there are too many
}

// ShowConversation tells a conversation as it went.
func (o *Operator) ShowConversation(ctx context.Context, req *sidecallv1.ShowConversationRequest) (*sidecallv1.ShowConversationResponse, error) {
	s, err := o.story(ctx, conversationKey(ctx, req))
	if err != nil {
		return nil, err
	}
	retention := o.Executor.Dedupe.Retention()
	from := int(req.GetFromEvent())
	switch {
	case len(s.Events) == 0 && s.head.Version == 0:
		return nil, status.Errorf(codes.NotFound, "conversation_id: of this tenant there is no such conversation: no message of it is kept, and no record of a call of it (records are kept for %s)", retention)
	case from < 0 || from > len(s.Events):
		return nil, status.Errorf(codes.InvalidArgument, "from_event: is %d, and the conversation has %d events: expected 0, or next_event of the page before", from, len(s.Events))
	}
	res := &sidecallv1.ShowConversationResponse{
		Messages: s.head.Version, Provider: string(s.head.Provider), EventsTotal: int32(len(s.Events)), FirstUnrecovered: int32(s.First),
		Counts: toldCounts(s.Counts()), MoreCalls: s.more, RecordsKept: durationpb.New(retention),
	}
	if s.head.Version > 0 {
		res.StartedAt, res.UpdatedAt = timestamppb.New(s.head.StartedAt), timestamppb.New(s.head.UpdatedAt)
	}
	size := 0
	for i, e := range s.Events[from:] {
		event := toldEvent(s.Timeline, &e)
		if size += proto.Size(event); size > maxPageBytes && i > 0 {
			res.NextEvent = int32(from + i)
			break
		}
		res.Events = append(res.Events, event)
	}
	return res, nil
}

// story reads what is kept of a conversation. Its error is a status.
func (o *Operator) story(ctx context.Context, key conversation.Key) (*story, error) {
	leave, err := place(ctx, o.loads)
	if err != nil {
		return nil, err
	}
	defer leave()
	records := o.Executor.Records()
	head, page, err := o.Executor.Book.Load(ctx, key, 0, pageBytes)
	if err != nil && !errors.Is(err, conversation.ErrNone) {
		return nil, transcriptStatus(ctx, err)
	}
	calls, more, err := records.CallsOf(ctx, key.Tenant, key.ID)
	if err != nil {
		return nil, statusOf(err)
	}
	var unread error
	line := timeline.Build(timeline.Input{
		Provider: head.Provider, Messages: o.messages(ctx, key, head.Version, page, &unread), Records: calls, Redact: records.Redacted,
	})
	if unread != nil {
		return nil, transcriptStatus(ctx, unread)
	}
	return &story{line, head, more}, nil
}

// messages are those of a conversation up to a version, whose first page is read, page by
// page.
func (o *Operator) messages(ctx context.Context, key conversation.Key, version int64, page []conversation.Message, unread *error) iter.Seq[timeline.Message] {
	return func(yield func(timeline.Message) bool) {
		for at := int64(0); at < version; {
			for _, m := range page {
				if !yield(timeline.Message{JSON: m.JSON, Turn: m.Turn}) {
					return
				}
			}
			if at += int64(len(page)); at >= version {
				return
			}
			if _, page, *unread = o.Executor.Book.Load(ctx, key, at, pageBytes); *unread != nil {
				return
			}
		}
	}
}
