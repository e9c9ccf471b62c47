package server

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// receivable is how much a client with default settings takes, in bytes, with room
	// for what a transport adds.
	receivable = 4<<20 - 64<<10
	// resultBytes is how much the results of pending calls may have together, in bytes:
	// the messages that tell of them have as much again, and up to as much more for what
	// JSON adds. What is too much is left out, and read from where it is kept.
	resultBytes = pageBytes / 6
	// briefBytes is how large a result is, in bytes, where there are very many: of a
	// larger one it is only told how it is got.
	briefBytes = 512
)

// ResumeConversation returns a conversation with what became of its open calls.
func (s *Conversations) ResumeConversation(ctx context.Context, req *sidecallv1.ResumeConversationRequest) (*sidecallv1.ResumeConversationResponse, error) {
	key := conversationKey(ctx, req)
	head, messages, now, err := s.Book.LoadAt(ctx, key, 0, pageBytes)
	if err != nil {
		return nil, transcriptStatus(ctx, err)
	}
	before, err := s.compactBefore(ctx, key, &head, req)
	if err == nil {
		err = conversation.Compact(key, head.Provider, 0, before, messages)
	}
	if err != nil {
		return nil, transcriptStatus(ctx, err)
	}
	res := &sidecallv1.ResumeConversationResponse{Version: head.Version, Provider: string(head.Provider), CompactedBefore: before, PromptId: head.Prompt}
	if err := s.tell(ctx, key, &head, now.Sub(head.CalledAt), len(messages[0].JSON), res); err != nil {
		return nil, err
	}
	res.MessagesJson, res.NextVersion = page(beside(res, messages), 0, head.Version)
	return res, nil
}

// tell adds what became of the open calls to a response. age is that of the oldest; first
// is how many bytes the first message has, which is to have room beside it.
func (s *Conversations) tell(ctx context.Context, key conversation.Key, head *conversation.Head, age time.Duration, first int, res *sidecallv1.ResumeConversationResponse) error {
	asked, err := s.Book.Pending(ctx, key, head)
	if err != nil {
		return transcriptStatus(ctx, err)
	}
	made := make([]tool.CallID, len(asked))
	fitting := result.Fitting{Most: min(resultBytes, (receivable-first)/4)}
	for i, one := range asked {
		var pending *sidecallv1.PendingCall
		if pending, made[i], err = s.pending(ctx, key, one, age); err != nil {
			return statusOf(err)
		}
		fitting.Add(i, made[i], pending.GetResult())
		res.Pending = append(res.Pending, pending)
	}
	if res.AnswersJson, err = answers(head.Provider, res.GetPending(), asked); err != nil || proto.Size(res) <= pageBytes {
		return err
	}
	for _, p := range res.GetPending() {
		p.Result = brief(p.GetResult())
	}
	res.AnswersJson, err = answers(head.Provider, res.GetPending(), asked)
	return err
}

// brief is what is told of a result where there is no room for so many of its size. As a
// handle of it would take as much again, it is got as it would have been.
func brief(res *sidecallv1.ExecuteToolResponse) *sidecallv1.ExecuteToolResponse {
	if proto.Size(res) <= briefBytes+len(res.GetToolUseId()) {
		return res
	}
	short := &sidecallv1.ExecuteToolResponse{
		ToolUseId: res.GetToolUseId(), Outcome: res.GetOutcome(), IsError: res.GetIsError(), Recorded: res.GetRecorded(), Stop: res.GetStop(),
		Content: "What became of this call does not fit into one response with so many others: sent again with the same ids, it is told in full.",
	}
	if res.GetIsError() {
		short.Content = res.GetError().GetCode() + ": " + short.GetContent()
		short.Error = &sidecallv1.ToolError{Code: res.GetError().GetCode()}
		how := res.GetRecovery()
		short.Recovery = &sidecallv1.Recovery{
			Class: how.GetClass(), Retryable: how.GetRetryable(), RetriesExhausted: how.GetRetriesExhausted(), RetryAfter: how.GetRetryAfter(),
			Attempts: how.GetAttempts(), RequireEscalation: how.GetRequireEscalation(),
		}
	}
	return short
}

// beside are the messages for which a response has room: the first of them, if a client
// can receive it at all, and as many as make no more than a page.
func beside(res *sidecallv1.ResumeConversationResponse, messages []conversation.Message) []conversation.Message {
	size := proto.Size(res)
	for i, m := range messages {
		size += len(m.JSON) + 5 // with its tag and length
		if size > pageBytes && (i > 0 || size > receivable) {
			return messages[:i]
		}
	}
	return messages
}

// pending is what became of one call, and its identity.
func (s *Conversations) pending(ctx context.Context, key conversation.Key, asked conversation.Asked, age time.Duration) (*sidecallv1.PendingCall, tool.CallID, error) {
	made := call.Request{Choice: call.Choice{Offered: s.Offered}, Use: tool.Use{
		Key:  tool.CallID{Tenant: key.Tenant, Conversation: key.ID, Turn: asked.Turn, ID: asked.ID},
		Tool: asked.Tool, Arguments: asked.Arguments, Custom: asked.Custom,
	}}
	state, res, err := s.Executor.Records().Pending(ctx, made, age)
	if err != nil {
		return nil, made.Key, err
	}
	return &sidecallv1.PendingCall{ToolUseId: asked.ID, ToolName: asked.Tool, TurnId: asked.Turn, State: state, Result: res}, made.Key, nil
}

// answers are the messages that tell of the pending calls, but for those that their program alone can answer.
func answers(format provider.Format, pending []*sidecallv1.PendingCall, asked []conversation.Asked) ([]string, error) {
	results := make([]*sidecallv1.ExecuteToolResponse, 0, len(pending))
	for i, p := range pending {
		if !provider.ByProgramAlone(asked[i].Custom) {
			results = append(results, p.GetResult())
		}
	}
	return written(format, results, customs(asked)...)
}

// customs are the ids of the calls that are no function's.
func customs(asked []conversation.Asked) (ids []string) {
	for _, a := range asked {
		if a.Custom != "" {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// openAt returns the open calls of a conversation that is at a version, and how long ago
// the oldest of them was made.
func (s *Conversations) openAt(ctx context.Context, key conversation.Key, version int64) (conversation.Head, []conversation.Asked, time.Duration, error) {
	head, _, now, err := s.Book.LoadAt(ctx, key, 0, 0)
	if err == nil && head.Version != version {
		err = &conversation.Stale{Field: "open_at_version", Expected: version, Version: head.Version}
	}
	if err != nil {
		return head, nil, 0, err
	}
	asked, err := s.Book.Pending(ctx, key, &head)
	return head, asked, now.Sub(head.CalledAt), err
}

// written are the messages that tell of results, as provider.Answers makes them.
func written(format provider.Format, results []*sidecallv1.ExecuteToolResponse, custom ...string) ([]string, error) {
	messages, err := provider.Answers(format, results, custom...)
	if err != nil {
		return nil, status.Errorf(codes.DataLoss, "the calls cannot be answered: %v", err)
	}
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = string(m)
	}
	return all, nil
}
