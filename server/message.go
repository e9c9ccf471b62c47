package server

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// turn is what is to be answered in the format of a provider: calls that are to be made,
// and those that have their results already.
type turn struct {
	format provider.Format
	// results are in the order of the calls; nil is one that requests have.
	results  []*sidecallv1.ExecuteToolResponse
	requests []*sidecallv1.ExecuteToolRequest
}

// add takes in a call with what it shares with the others.
func (t *turn) add(shared *sidecallv1.ExecuteToolRequest, id, name, arguments string) *sidecallv1.ExecuteToolRequest {
	one := proto.CloneOf(shared)
	if one == nil {
		one = &sidecallv1.ExecuteToolRequest{}
	}
	one.ToolUseId, one.ToolName, one.ArgumentsJson = id, name, arguments
	t.requests, t.results = append(t.requests, one), append(t.results, nil)
	return one
}

// answer takes in a call that is not made.
func (t *turn) answer(id string, why tool.Error) {
	res, _ := result.For{ID: id}.Refused(why, 0).Render()
	t.results = append(t.results, res)
}

// ReadMessage returns what a message of a model asks for.
func (s *Service) ReadMessage(_ context.Context, req *sidecallv1.ReadMessageRequest) (*sidecallv1.ReadMessageResponse, error) {
	read, err := readMessage(req.GetMessageJson())
	if err != nil {
		return nil, err
	}
	return &sidecallv1.ReadMessageResponse{
		Provider: string(read.Format), Id: read.ID, Calls: int32(len(read.Calls)), Cut: read.Cut, ExitReason: read.ExitReason(),
		Tokens: read.Tokens, MessagesJson: read.Messages,
	}, nil
}

// RunMessage runs the calls of a message of a model, or those that a conversation has left
// open, and returns what answers them.
func (s *Service) RunMessage(ctx context.Context, req *sidecallv1.RunMessageRequest) (*sidecallv1.RunMessageResponse, error) {
	if shared := req.GetShared(); shared.GetToolUseId() != "" || shared.GetToolName() != "" || shared.GetArgumentsJson() != "" {
		return nil, status.Error(codes.InvalidArgument, "shared: has tool_use_id, tool_name or arguments_json, which are each call's own")
	}
	lease := s.Executor.Catalog.Lease()
	defer lease.Release()
	made, err := s.turn(ctx, req)
	if err != nil {
		return nil, err
	}
	most := cmp.Or(int(max(req.GetMaxResponseBytes(), 0)), receivable)
	s.run(ctx, lease, made, min(most/4, result.MostBytes)) // the messages have as much again, and what JSON adds
	res, err := made.response()
	if err != nil || proto.Size(res) <= most {
		return res, err
	}
	for i, one := range made.results {
		made.results[i] = brief(one)
	}
	return made.response()
}

// turn is what a request asks for.
func (s *Service) turn(ctx context.Context, req *sidecallv1.RunMessageRequest) (*turn, error) {
	if req.GetOpenAtVersion() != 0 {
		return s.open(ctx, req)
	}
	read, err := readMessage(req.GetMessageJson())
	if err != nil {
		return nil, err
	}
	t := &turn{format: read.Format}
	for _, c := range read.Calls {
		switch most := s.mostArguments; {
		case read.Cut != "":
			t.answer(c.ID, explain.CutShort(read.Cut))
		case most > 0 && len(c.Arguments) > most:
			t.answer(c.ID, explain.TooLarge(c.Tool, len(c.Arguments), most))
		default:
			one := t.add(req.GetShared(), c.ID, c.Tool, c.Arguments)
			one.TurnId = cmp.Or(one.GetTurnId(), read.ID)
			one.MessageId = cmp.Or(one.GetMessageId(), one.GetTurnId()) // its calls may be several batches
		}
	}
	return t, nil
}

func readMessage(text string) (*provider.Turn, error) {
	read, err := provider.Read(text)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "message_json: %v", err)
	}
	return read, nil
}

// run makes the calls, as many at a time as a batch may have.
func (s *Service) run(ctx context.Context, lease catalog.Lease, t *turn, most int) {
	at := 0
	for batch := range slices.Chunk(t.requests, max(lease.Limits.MaxBatch, 1)) {
		calls := make([]call.Request, len(batch))
		for i, one := range batch {
			calls[i] = s.request(ctx, lease.Snapshot, one)
		}
		for _, res := range s.Executor.ExecuteBatch(ctx, lease, calls, most) {
			for t.results[at] != nil {
				at++
			}
			t.results[at] = res
		}
	}
}

// response has the messages that tell of the results.
func (t *turn) response() (*sidecallv1.RunMessageResponse, error) {
	messages, err := written(t.format, t.results)
	if err != nil {
		return nil, err
	}
	res := &sidecallv1.RunMessageResponse{MessagesJson: messages, Results: t.results, BudgetExceeded: len(t.results) > 0}
	for _, one := range t.results {
		res.Stop = res.Stop || one.GetStop()
		res.RequireEscalation = res.RequireEscalation || one.GetRecovery().GetRequireEscalation()
		res.BudgetExceeded = res.BudgetExceeded && one.GetError().GetCode() == string(tool.CodeBudgetExceeded)
	}
	return res, nil
}

// open is what a conversation has left open: calls that are made again with the ids that
// they had, and those of which no record would keep them from running twice.
func (s *Service) open(ctx context.Context, req *sidecallv1.RunMessageRequest) (*turn, error) {
	if req.GetMessageJson() != "" {
		return nil, status.Error(codes.InvalidArgument, "open_at_version: is instead of message_json, and not beside it")
	}
	kept := &Conversations{Executor: s.Executor, Book: s.Executor.Book, Offered: s.Offered}
	head, asked, age, err := kept.openAt(ctx, conversationKey(ctx, req.GetShared()), req.GetOpenAtVersion())
	if err != nil {
		return nil, kept.transcriptStatus(ctx, err)
	}
	t := &turn{format: head.Provider}
	for _, one := range asked {
		pending, _, err := kept.pending(ctx, conversationKey(ctx, req.GetShared()), one, age)
		if err != nil {
			return nil, statusOf(err)
		}
		if pending.GetState() == sidecallv1.Pending_PENDING_UNKNOWN && !pending.GetResult().GetRecorded() {
			t.results = append(t.results, pending.GetResult())
			continue
		}
		again := t.add(req.GetShared(), one.ID, one.Tool, one.Arguments)
		again.TurnId, again.PromptId = one.Turn, cmp.Or(head.Prompt, again.GetPromptId())
		again.MessageId = cmp.Or(again.GetMessageId(), one.Turn)
	}
	return t, nil
}

// written are the messages that tell of results.
func written(format provider.Format, results []*sidecallv1.ExecuteToolResponse) ([]string, error) {
	messages, err := provider.Answers(format, results)
	if err != nil {
		return nil, status.Errorf(codes.DataLoss, "the calls cannot be answered: %v", err)
	}
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = string(m)
	}
	return all, nil
}
