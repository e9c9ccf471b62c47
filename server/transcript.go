package server

import (
	"context"
	"errors"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// pageBytes is how much of messages one response has, in bytes: with what else is
	// in it, as much as a client with default settings takes. One message alone may
	// have as much.
	pageBytes = conversation.MaxMessageBytes
	// versionTrailer is the metadata that tells the version of a conversation to whom
	// had another one.
	versionTrailer = "sidecall-conversation-version"

	defaultConversations = 100
	maxConversations     = 1000
)

// AppendMessages adds messages to a conversation.
func (s *Conversations) AppendMessages(ctx context.Context, req *sidecallv1.AppendMessagesRequest) (*sidecallv1.AppendMessagesResponse, error) {
	version, err := s.Book.Append(ctx, conversation.Append{
		Key: conversationKey(ctx, req), Expected: req.GetExpectedVersion(), Provider: provider.Format(req.GetProvider()),
		Turn: req.GetTurnId(), Messages: req.GetMessagesJson(), ID: req.GetAppendId(), Prompt: req.GetPromptId(),
		Fence: s.Executor.Records().Fence(tenant(ctx), req.GetConversationId()),
	})
	if err != nil {
		return nil, transcriptStatus(ctx, err)
	}
	return &sidecallv1.AppendMessagesResponse{Version: version}, nil
}

// LoadConversation returns messages of a conversation.
func (s *Conversations) LoadConversation(ctx context.Context, req *sidecallv1.LoadConversationRequest) (*sidecallv1.LoadConversationResponse, error) {
	key := conversationKey(ctx, req)
	head, messages, err := s.Book.Load(ctx, key, req.GetFromVersion(), pageBytes)
	if err != nil {
		return nil, transcriptStatus(ctx, err)
	}
	before := req.GetCompactBefore()
	switch {
	case before < 0 || before > head.Version:
		return nil, status.Errorf(codes.InvalidArgument, "compact_before: is %d: expected 0, or compacted_before of the page before", before)
	case before == 0:
		if before, err = s.compactBefore(ctx, key, &head, req); err != nil {
			return nil, transcriptStatus(ctx, err)
		}
	}
	if err := conversation.Compact(key, head.Provider, req.GetFromVersion(), before, messages); err != nil {
		return nil, transcriptStatus(ctx, err)
	}
	res := &sidecallv1.LoadConversationResponse{Version: head.Version, Provider: string(head.Provider), CompactedBefore: before}
	res.MessagesJson, res.NextVersion = page(messages, req.GetFromVersion(), head.Version)
	return res, nil
}

// compacting is what every request says that loads a conversation.
type compacting interface {
	GetCompactAfterTurns() int32
	GetCompactToTokens() int64
}

// compactBefore is the message before which a request wants results to be left out.
func (s *Conversations) compactBefore(ctx context.Context, key conversation.Key, head *conversation.Head, req compacting) (int64, error) {
	return s.Book.CompactBefore(ctx, key, head, conversation.Compaction{AfterTurns: int(req.GetCompactAfterTurns()), ToTokens: req.GetCompactToTokens()})
}

// page is what a response has of messages, and where the next one begins.
func page(messages []conversation.Message, from, version int64) (texts []string, next int64) {
	texts = make([]string, len(messages))
	for i, m := range messages {
		texts[i] = m.JSON
	}
	if next = from + int64(len(messages)); next >= version {
		next = 0
	}
	return texts, next
}

// ListConversations lists the conversations of a tenant.
func (s *Conversations) ListConversations(ctx context.Context, req *sidecallv1.ListConversationsRequest) (*sidecallv1.ListConversationsResponse, error) {
	most := int(req.GetPageSize())
	switch {
	case most < 0 || most > maxConversations:
		return nil, status.Errorf(codes.InvalidArgument, "page_size: is %d: expected 0 to %d", most, maxConversations)
	case most == 0:
		most = defaultConversations
	}
	found, next, err := s.Book.List(ctx, tenant(ctx), req.GetPageToken(), most)
	if err != nil {
		return nil, transcriptStatus(ctx, err)
	}
	res := &sidecallv1.ListConversationsResponse{NextPageToken: next}
	for _, one := range found {
		if one.Err != nil { // of this one alone: the others are listed
			res.Conversations = append(res.Conversations, &sidecallv1.ConversationSummary{ConversationId: one.ID, Damage: one.Err.Error()})
			continue
		}
		res.Conversations = append(res.Conversations, summary(one.ID, &one.Head))
	}
	return res, nil
}

func summary(id string, head *conversation.Head) *sidecallv1.ConversationSummary {
	return &sidecallv1.ConversationSummary{
		ConversationId: id, Version: head.Version, Provider: string(head.Provider), Bytes: head.Bytes,
		StartedAt: timestamppb.New(head.StartedAt), UpdatedAt: timestamppb.New(head.UpdatedAt), OpenCalls: int32(head.OpenCalls()),
	}
}

func conversationKey(ctx context.Context, req interface{ GetConversationId() string }) conversation.Key {
	return conversation.Key{Tenant: tenant(ctx), ID: req.GetConversationId()}
}

// transcriptStatus is the status of a request about a conversation that cannot be done.
func transcriptStatus(ctx context.Context, err error) error {
	if stale, ok := errors.AsType[*conversation.Stale](err); ok {
		// Its error is that of a stream that has ended, whose status nobody hears.
		_ = grpc.SetTrailer(ctx, metadata.Pairs(versionTrailer, strconv.FormatInt(stale.Version, 10)))
		return status.Error(codes.Aborted, stale.Error())
	}
	if invalid, ok := errors.AsType[*conversation.Invalid](err); ok {
		return status.Error(codes.InvalidArgument, invalid.Error())
	}
	if said, ok := errors.AsType[*conversation.Contradiction](err); ok {
		return status.Error(codes.FailedPrecondition, said.Error())
	}
	if fault, ok := errors.AsType[*call.Fault](err); ok {
		return statusOf(fault)
	}
	if full, ok := errors.AsType[*conversation.Full](err); ok {
		return status.Error(codes.ResourceExhausted, full.Error())
	}
	switch {
	case errors.Is(err, conversation.ErrNone):
		return status.Error(codes.NotFound, "conversation_id: there is no such conversation, or its time is over")
	case errors.Is(err, conversation.ErrBusy):
		return status.Error(codes.Unavailable, err.Error()) // its version is still the one to append at
	case errors.Is(err, conversation.ErrCorrupt), errors.Is(err, dedupe.ErrCorrupt):
		return status.Error(codes.DataLoss, err.Error())
	case errors.Is(err, dedupe.ErrInvalid):
		return status.Error(codes.InvalidArgument, "page_token: is none that a listing gave")
	case errors.Is(err, dedupe.ErrFull):
		return status.Error(codes.ResourceExhausted, err.Error())
	}
	return storeStatus(ctx)
}
