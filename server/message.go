package server

import (
	"cmp"
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
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
	requests []call.Request
	// custom are the ids of the calls that are no function's.
	custom []string
	// named is the field that the turn of the calls is in; empty for that of what they share.
	named string
	// load is what the calls hold that the request has not brought.
	load limit.Load
}

// add takes in a call. Its ids are fit, so that what is wrong with it is wrong with what
// all calls share: it is said once, and is in memory once.
func (t *turn) add(made call.Request) error {
	for _, why := range []*tool.Error{made.Nameless, made.Impossible} {
		switch {
		case why == nil:
		case why.Field == "turn_id" && t.named != "":
			return status.Errorf(codes.InvalidArgument, "%s: %s", t.named, why.Constraint)
		default:
			return status.Errorf(codes.InvalidArgument, "shared.%s: %s", why.Field, why.Constraint)
		}
	}
	t.requests, t.results = append(t.requests, made), append(t.results, nil)
	return nil
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
	if req.GetMaxResponseBytes() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "max_response_bytes: is %d: expected 0, or what the client can receive", req.GetMaxResponseBytes())
	}
	lease := s.Executor.Catalog.Lease()
	defer lease.Release()
	made := &turn{}
	made.load.Of(s.bytes)
	defer made.load.Release()
	if err := s.read(ctx, lease.Snapshot, req, made); err != nil {
		return nil, err
	}
	most := cmp.Or(int(req.GetMaxResponseBytes()), receivable)
	s.run(ctx, lease, made, min(max(most/4, 1), result.MostBytes)) // the messages have as much again, and what JSON adds
	res, err := made.response()
	if err != nil || proto.Size(res) <= most {
		return res, err
	}
	for i, one := range made.results {
		made.results[i] = brief(one)
	}
	return made.response()
}

// read reads what a request asks for.
func (s *Service) read(ctx context.Context, snapshot *catalog.Snapshot, req *sidecallv1.RunMessageRequest, t *turn) error {
	one := proto.CloneOf(req.GetShared()) // the calls in turn
	if one == nil {
		one = &sidecallv1.ExecuteToolRequest{}
	}
	if req.GetOpenAtVersion() != 0 {
		return s.open(ctx, snapshot, req, one, t)
	}
	read, err := readMessage(req.GetMessageJson())
	if err != nil {
		return err
	}
	t.format = read.Format
	if one.GetTurnId() == "" && read.ID != "" {
		one.TurnId, t.named = read.ID, "message_json.id"
	}
	one.MessageId = cmp.Or(one.GetMessageId(), one.GetTurnId())
	for _, c := range read.Calls {
		switch most := s.mostArguments; {
		case read.Cut != "":
			t.answer(c.ID, explain.CutShort(read.Cut))
		case most > 0 && len(c.Arguments) > most:
			t.answer(c.ID, explain.TooLarge(c.Tool, len(c.Arguments), most))
		default:
			one.ToolUseId, one.ToolName, one.ArgumentsJson = c.ID, c.Tool, c.Arguments
			if err := t.add(s.request(ctx, snapshot, one)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostFault is how many characters are said of what is wrong with a message.
const mostFault = 500

func readMessage(text string) (*provider.Turn, error) {
	read, err := provider.Read(text)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "message_json: %s", tool.Shorten(err.Error(), mostFault)) // it may name what is in it
	}
	return read, nil
}

// run makes the calls, as one batch: they share its room, and its order.
func (s *Service) run(ctx context.Context, lease catalog.Lease, t *turn, most int) {
	made := s.Executor.ExecuteBatch(ctx, lease, t.requests, most)
	for i, known := range t.results {
		if known == nil {
			t.results[i], made = made[0], made[1:]
		}
	}
}

// response has the messages that tell of the results.
func (t *turn) response() (*sidecallv1.RunMessageResponse, error) {
	messages, err := written(t.format, t.results, t.custom...)
	if err != nil {
		return nil, err
	}
	res := &sidecallv1.RunMessageResponse{MessagesJson: messages, Results: t.results, BudgetExceeded: len(t.results) > 0}
	for _, one := range t.results {
		res.Stop = res.GetStop() || one.GetStop()
		res.RequireEscalation = res.GetRequireEscalation() || one.GetRecovery().GetRequireEscalation()
		res.BudgetExceeded = res.GetBudgetExceeded() && one.GetError().GetCode() == string(tool.CodeBudgetExceeded)
	}
	return res, nil
}

// open reads what a conversation has left open: calls that are made again with the ids that
// they had, and those of which no record would keep them from running twice.
func (s *Service) open(ctx context.Context, snapshot *catalog.Snapshot, req *sidecallv1.RunMessageRequest, one *sidecallv1.ExecuteToolRequest, t *turn) error {
	switch {
	case req.GetMessageJson() != "":
		return status.Error(codes.InvalidArgument, "open_at_version: is instead of message_json, and not beside it")
	case req.GetOpenAtVersion() < 0:
		return status.Errorf(codes.InvalidArgument, "open_at_version: is %d: expected the version of a conversation", req.GetOpenAtVersion())
	}
	leave, err := place(ctx, s.loads)
	if err != nil {
		return err
	}
	defer leave()
	kept, key := &Conversations{Executor: s.Executor, Book: s.Executor.Book, Offered: s.Offered}, conversationKey(ctx, one)
	head, asked, age, err := kept.openAt(ctx, key, req.GetOpenAtVersion())
	if err != nil {
		return transcriptStatus(ctx, err)
	}
	t.format, t.custom, one.PromptId = head.Provider, customs(asked), cmp.Or(head.Prompt, one.GetPromptId())
	ctx = context.WithValue(ctx, loadKey{}, &t.load)
	message := one.GetMessageId()
	size := 0
	for _, a := range asked {
		if provider.ByProgramAlone(a.Custom) {
			return status.Errorf(codes.InvalidArgument, "open_at_version: the open call %s is a %s, which the program alone can answer: append its %s first", tool.Quote(a.ID), a.Custom, provider.AnswerTo(a.Custom))
		}
		size += len(a.Arguments)
	}
	if !t.load.Take(requestWeight * int64(size)) {
		return status.Errorf(codes.ResourceExhausted,
			"OVERLOADED: there is no room for open calls of %d bytes beside what is under way (limits.max_held_bytes); nothing was started, send the request again later", size)
	}
	for _, a := range asked {
		pending, _, err := kept.pending(ctx, key, a, age)
		if err != nil {
			return statusOf(err)
		}
		if pending.GetState() == sidecallv1.Pending_PENDING_UNKNOWN && !pending.GetResult().GetRecorded() {
			t.results = append(t.results, pending.GetResult())
			continue
		}
		one.ToolUseId, one.ToolName, one.ArgumentsJson, one.TurnId = a.ID, a.Tool, a.Arguments, a.Turn
		one.MessageId = cmp.Or(message, a.Turn)
		if err := t.add(s.request(ctx, snapshot, one)); err != nil {
			return err
		}
	}
	return nil
}
