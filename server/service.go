package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call"
	"github.com/sidecall/sidecall/internal/call/explain"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/limit"
	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Service is the ToolService of a sidecar: it turns requests into calls, and
// nothing else.
type Service struct {
	sidecallv1.UnimplementedToolServiceServer

	Executor *call.Executor
	// Offered are the profiles that requests may name, the first of them for one
	// that names none; nil is all.
	Offered []string

	// bytes is what the calls take room of; nil is all that there is.
	bytes *limit.Bytes
	// mostArguments is how many bytes the arguments of one call in a message may have; 0 is
	// without a bound.
	mostArguments int
	// readers has a place for each output that may be read at a time: it is taken
	// whole out of the store, for a page of it. nil is without a bound.
	readers chan struct{}
	// loads has a place for each conversation that may be read at a time; nil likewise.
	loads chan struct{}
	// asked are the questions that calls wait with.
	asked *questionsAsked
}

// ExecuteTool runs one call. Nothing but a call without an id that it must have,
// or under whose id no result can be given, is refused with a status: what else is
// wrong with one is data for the model.
func (s *Service) ExecuteTool(ctx context.Context, req *sidecallv1.ExecuteToolRequest) (*sidecallv1.ExecuteToolResponse, error) {
	lease := s.Executor.Catalog.Lease()
	defer lease.Release()
	request, err := s.single(ctx, lease.Snapshot, req)
	if err != nil {
		return nil, err
	}
	return s.Executor.Execute(ctx, lease, request), nil
}

// single is the call of a request that has one.
func (s *Service) single(ctx context.Context, snapshot *catalog.Snapshot, req *sidecallv1.ExecuteToolRequest) (call.Request, error) {
	request := s.request(ctx, snapshot, req)
	if why := request.Nameless; why != nil && (why.Received == explain.Missing || request.Key.ID != req.GetToolUseId()) {
		return request, invalid(why)
	}
	return request, nil
}

// ExecuteTools runs the calls of one assistant turn. What is wrong with one of
// them costs its own result, and never those of the others.
func (s *Service) ExecuteTools(ctx context.Context, req *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error) {
	lease := s.Executor.Catalog.Lease()
	defer lease.Release()
	if most := lease.Limits.MaxBatch; len(req.GetCalls()) > most {
		return nil, tooManyCalls(len(req.GetCalls()), most)
	}
	calls := make([]call.Request, len(req.GetCalls()))
	for i, one := range req.GetCalls() {
		calls[i] = s.request(ctx, lease.Snapshot, one)
	}
	return &sidecallv1.ExecuteToolsResponse{Results: s.Executor.ExecuteBatch(ctx, lease, calls, 0)}, nil
}

// request is a call as the caller sends it.
func (s *Service) request(ctx context.Context, snapshot *catalog.Snapshot, req *sidecallv1.ExecuteToolRequest) call.Request {
	made := call.NewRequest(tenant(ctx), req, snapshot.Limits.RequireIDs...)
	made.Client, made.Offered, made.Bytes, made.Load = client(ctx), s.Offered, s.bytes, loadOf(ctx)
	return made
}

// ListTools lists the tools that a profile may call, by name, page by page.
func (s *Service) ListTools(_ context.Context, req *sidecallv1.ListToolsRequest) (*sidecallv1.ListToolsResponse, error) {
	snapshot := s.Executor.Catalog.Snapshot()
	profile, err := s.profile(snapshot, req.GetProfile())
	if err != nil {
		return nil, err
	}
	after, err := behind(req)
	if err != nil {
		return nil, err
	}
	page := toolPage{most: int(req.GetPageSize()), provider: provider.Format(req.GetProvider())}
	if p := page.provider; p != "" && !slices.Contains(provider.Formats(), p) {
		return nil, status.Errorf(codes.InvalidArgument, "provider: is %s: expected one of %q, or nothing", tool.Quote(string(p)), provider.Formats())
	}
	for route := range snapshot.RoutesAfter(profile, after) {
		if !page.add(result.Tool(&route.Tool)) {
			break
		}
	}
	res := page.response()
	if req.GetPageToken() != "" {
		return res, nil
	}
	res.UnavailableBackends = unavailable(snapshot)
	return res, nil
}

// GetInstructions returns what a model is to be taught of the tools of a profile.
func (s *Service) GetInstructions(_ context.Context, req *sidecallv1.GetInstructionsRequest) (*sidecallv1.GetInstructionsResponse, error) {
	snapshot := s.Executor.Catalog.Snapshot()
	profile, err := s.profile(snapshot, req.GetProfile())
	if err != nil {
		return nil, err
	}
	return &sidecallv1.GetInstructionsResponse{Text: explain.Manual(snapshot, profile), UnavailableBackends: unavailable(snapshot)}, nil
}

// profile is the one that a question names.
func (s *Service) profile(snapshot *catalog.Snapshot, name string) (catalog.Profile, error) {
	return profileOf(snapshot, name, s.Offered)
}

func profileOf(snapshot *catalog.Snapshot, name string, offered []string) (catalog.Profile, error) {
	profile, ok := snapshot.Profiles.Find(name, offered...)
	if !ok {
		refusal := explain.UnknownProfile(name, snapshot.Profiles.Names(offered...))
		return profile, status.Errorf(codes.InvalidArgument, "profile: %s. %s", refusal.Constraint, refusal.Hint)
	}
	return profile, nil
}

// unavailable are the backends that are down, or not discovered yet, by name.
func unavailable(snapshot *catalog.Snapshot) []*sidecallv1.UnavailableBackend {
	var all []*sidecallv1.UnavailableBackend
	waiting := snapshot.Undiscovered()
	for name, u := range waiting {
		all = append(all, &sidecallv1.UnavailableBackend{Name: name, Reason: u.Why(), Undiscovered: true})
	}
	for name, reason := range snapshot.Down() {
		if _, told := waiting[name]; !told {
			all = append(all, &sidecallv1.UnavailableBackend{Name: name, Reason: reason})
		}
	}
	slices.SortFunc(all, func(a, b *sidecallv1.UnavailableBackend) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}

// GetExecution returns the record of a call.
func (s *Service) GetExecution(ctx context.Context, req *sidecallv1.GetExecutionRequest) (*sidecallv1.Execution, error) {
	key, err := keyOf(ctx, req)
	if err != nil {
		return nil, err
	}
	execution, err := s.Executor.Records().Execution(ctx, key)
	return execution, statusOf(err)
}

// ReadOutput pages through what a response had no room for.
func (s *Service) ReadOutput(ctx context.Context, req *sidecallv1.ReadOutputRequest) (*sidecallv1.ReadOutputResponse, error) {
	if req.GetOutputRef() == "" {
		return nil, status.Error(codes.InvalidArgument, "output_ref: is required: send the one from truncation, a block or structured_output_ref")
	}
	leave, err := place(ctx, s.readers)
	if err != nil {
		return nil, err
	}
	defer leave()
	kept, err := result.Outputs{Dedupe: s.Executor.Dedupe, Book: s.Executor.Book}.Read(ctx, tenant(ctx), req.GetConversationId(), req.GetOutputRef())
	switch {
	case errors.Is(err, dedupe.ErrNoOutput):
		return nil, status.Errorf(codes.NotFound, "no output %s in the conversation %s: it has expired, never was, or is of another one; conversation_id is that of the call that returned it",
			tool.Quote(req.GetOutputRef()), tool.Quote(req.GetConversationId()))
	case err != nil:
		return nil, storeStatus(ctx)
	case kept.MediaType != "":
		return readBytes(kept, req)
	default:
		return readText(ctx, kept, req)
	}
}

func readText(ctx context.Context, kept output.Kept, req *sidecallv1.ReadOutputRequest) (*sidecallv1.ReadOutputResponse, error) {
	page, wrong := output.Page(ctx, kept.Data, req.GetOffset(), req.GetLimit(), req.GetPattern())
	if wrong != nil {
		return nil, invalidPage(wrong)
	}
	return &sidecallv1.ReadOutputResponse{
		Content: page.Content, TotalChars: page.TotalChars, NextOffset: page.NextOffset, Complete: kept.Complete,
	}, nil
}

// readBytes pages through what is no text.
func readBytes(kept output.Kept, req *sidecallv1.ReadOutputRequest) (*sidecallv1.ReadOutputResponse, error) {
	page, next, wrong := output.PageBytes(kept.Data, req.GetOffset(), req.GetLimit(), req.GetPattern())
	if wrong != nil {
		return nil, invalidPage(wrong)
	}
	return &sidecallv1.ReadOutputResponse{
		Data: page, MediaType: kept.MediaType, TotalBytes: int64(len(kept.Data)), NextOffset: next, Complete: kept.Complete,
	}, nil
}

func invalidPage(wrong *tool.Error) error {
	return status.Error(codes.InvalidArgument,
		fmt.Sprintf("%s: %s (received %s). %s", wrong.Field, wrong.Constraint, wrong.Received, wrong.Hint))
}
