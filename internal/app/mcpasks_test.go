package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// newWalker is a server with one tool that tells of its progress, twice.
func newWalker() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "steps", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "walk", InputSchema: anyArguments}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for i, note := range []string{"left", "right"} {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Message: note, Progress: float64(i + 1), Total: 2,
			})
			if err != nil {
				return nil, err
			}
		}
		return says("arrived"), nil
	})
	return s
}

var bothSteps = []string{"left 1/2", "right 2/2"}

func TestProgressReachesAClientByItsToken(t *testing.T) {
	inEachRevision(t, func(t *testing.T, upstream string) {
		inEachRevision(t, func(t *testing.T, revision string) {
			o, _ := openMCPServer(t, newWalker())
			s, _ := before(t, fmt.Sprintf("backends: {steps: {trust: trusted, mcp: {url: %q, allow_private: true, protocol: %q}}}", o.url, upstream))
			var mu sync.Mutex
			heard := map[any][]string{}
			session := s.connect(t, revision, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
				mu.Lock()
				defer mu.Unlock()
				p := req.Params
				heard[p.ProgressToken] = append(heard[p.ProgressToken], fmt.Sprintf("%s %v/%v", p.Message, p.Progress, p.Total))
			}})
			for _, token := range []string{"mine", "other", ""} {
				params := &mcp.CallToolParams{Name: "walk", Arguments: map[string]any{"with": token}, Meta: mcp.Meta{}}
				if token != "" {
					params.SetProgressToken(token)
				}
				if res, err := session.CallTool(t.Context(), params); err != nil || text(t, res) != "arrived" {
					t.Fatalf("%v, %v", res, err)
				}
			}
			harness.WaitFor(t, "the progress of two calls", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(heard["mine"]) >= 2 && len(heard["other"]) >= 2
			})
			mu.Lock()
			defer mu.Unlock()
			if len(heard) != 2 || !slices.Equal(heard["mine"], bothSteps) || !slices.Equal(heard["other"], bothSteps) {
				t.Errorf("heard %v", heard)
			}
		})
	})
}

// events are the messages of a stream, up to its end.
func events(t *testing.T, tools sidecallv1.ToolServiceClient, req *sidecallv1.ExecuteToolStreamRequest) (progress []string, results []*sidecallv1.ExecuteToolResponse) {
	t.Helper()
	stream, err := tools.ExecuteToolStream(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for {
		event, err := stream.Recv()
		switch p := event.GetProgress(); {
		case errors.Is(err, io.EOF):
			return progress, results
		case err != nil:
			t.Fatal(err)
		case event.GetResult() != nil:
			results = append(results, event.GetResult())
		case len(results) > 0:
			t.Errorf("after the result: %v", event)
		default:
			progress = append(progress, fmt.Sprintf("%s %v/%v", p.GetNote(), p.GetProgress(), p.GetTotal()))
		}
	}
}

func TestAStreamHasEventsAndThenTheResult(t *testing.T) {
	o, _ := openMCPServer(t, newWalker())
	_, tools := before(t, fmt.Sprintf("backends: {steps: {trust: trusted, mcp: {url: %q, allow_private: true}}}", o.url))
	walk := func(id string) *sidecallv1.ExecuteToolRequest {
		return &sidecallv1.ExecuteToolRequest{ToolUseId: id, ConversationId: "c", ToolName: "walk"}
	}
	progress, results := events(t, tools, &sidecallv1.ExecuteToolStreamRequest{Call: walk("1")})
	if !slices.Equal(progress, bothSteps) || len(results) != 1 {
		t.Fatalf("events %q, %d results", progress, len(results))
	}
	unary, err := tools.ExecuteTool(t.Context(), walk("2"))
	if err != nil || results[0].GetContent() != "arrived" || unary.GetContent() != "arrived" || results[0].GetOutcome() != unary.GetOutcome() || results[0].GetReplayed() {
		t.Errorf("streamed %v, without a stream %v, %v", results[0], unary, err)
	}
	progress, results = events(t, tools, &sidecallv1.ExecuteToolStreamRequest{Call: walk("1")})
	if len(progress) != 0 || len(results) != 1 || results[0].GetContent() != "arrived" || !results[0].GetReplayed() {
		t.Errorf("again: events %q, %v", progress, results)
	}
}

// asking is a server that asks its client before it answers.
type asking struct {
	*mcp.Server

	calls atomic.Int64
	// hold keeps a call that says so, until it is closed.
	hold chan struct{}
}

func newAsking() *asking {
	a := &asking{Server: mcp.NewServer(&mcp.Implementation{Name: "asking", Version: "1"}, nil), hold: make(chan struct{})}
	tool := func(name string, ask func(context.Context, *mcp.ServerSession) (string, error)) {
		a.AddTool(&mcp.Tool{Name: name, InputSchema: anyArguments}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			a.calls.Add(1)
			if strings.Contains(string(req.Params.Arguments), "hold") {
				<-a.hold
			}
			answer, err := ask(ctx, req.Session)
			if err != nil {
				answer = "no answer: " + err.Error()
				if rpc, ok := errors.AsType[*jsonrpc.Error](err); !ok || rpc.Code == 0 {
					answer = "an error without a code: " + err.Error()
				}
			}
			return says(answer), nil
		})
	}
	tool("elicit", func(ctx context.Context, session *mcp.ServerSession) (string, error) {
		res, err := session.Elicit(ctx, &mcp.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %v", res.Action, res.Content["name"]), nil
	})
	tool("sample", func(ctx context.Context, session *mcp.ServerSession) (string, error) {
		res, err := session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 9, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "2+2?"}}}}) //nolint:staticcheck // it works as long as clients have it
		if err != nil {
			return "", err
		}
		return res.Model + " says " + res.Content.(*mcp.TextContent).Text, nil
	})
	return a
}

// beforeAsking is a sidecar before it that hands its questions on.
func beforeAsking(t *testing.T) (*asking, *shop, sidecallv1.ToolServiceClient) {
	t.Helper()
	a := newAsking()
	o, _ := openMCPServer(t, a.Server)
	s, tools := before(t, fmt.Sprintf("backends: {asking: {trust: trusted, mcp: {url: %q, allow_private: true, hands_on: [elicitation, sampling]}}}", o.url))
	return a, s, tools
}

// answering is a client that answers both kinds of questions.
func answering() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if req.Params.Message != "Who?" {
				return nil, errors.New("another question")
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "ada"}}, nil
		},
		CreateMessageHandler: func(_ context.Context, req *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) { //nolint:staticcheck // likewise
			return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "4"}}, nil //nolint:staticcheck // likewise
		},
	}
}

func TestQuestionsOfAServerReachTheCaller(t *testing.T) {
	_, s, _ := beforeAsking(t)
	session := s.connect(t, "2025-11-25", answering())
	for tool, want := range map[string]string{"elicit": "accept ada", "sample": "m says 4"} {
		if res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool}); err != nil || text(t, res) != want {
			t.Errorf("%s: %v, %v; want %q", tool, res, err, want)
		}
	}
}

// A server does not say for which call it asks: with two under way it is told that nobody can be.
func TestAQuestionWithTwoCallsUnderWayIsRefused(t *testing.T) {
	a, s, _ := beforeAsking(t)
	session := s.connect(t, "2025-11-25", answering())
	first := make(chan string, 1)
	go func() {
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "elicit", Arguments: map[string]any{"hold": true}})
		if err != nil {
			first <- err.Error()
			return
		}
		first <- text(t, res)
	}()
	harness.WaitFor(t, "the first call", func() bool { return a.calls.Load() == 1 })
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "elicit"})
	if err != nil || !strings.HasPrefix(text(t, res), "no answer: ") || !strings.Contains(text(t, res), "several calls under way") {
		t.Errorf("the second call: %v, %v", res, err)
	}
	close(a.hold)
	if said := <-first; said != "accept ada" {
		t.Errorf("the first call, alone again: %q", said)
	}
}

func TestAQuestionToACallerWhoDoesNotAnswerIsRefused(t *testing.T) {
	_, s, tools := beforeAsking(t)
	res, err := s.connect(t, "2025-11-25", nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "elicit"})
	if err != nil || !strings.Contains(text(t, res), "no answer: ") || !strings.Contains(text(t, res), "does not support") {
		t.Errorf("a client that cannot be asked: %v, %v", res, err)
	}
	res, err = s.connect(t, "2026-07-28", answering()).CallTool(t.Context(), &mcp.CallToolParams{Name: "elicit"})
	if err != nil || !strings.Contains(text(t, res), "cannot be asked") {
		t.Errorf("a client of the revision without sessions: %v, %v", res, err)
	}
	ask := func(id string) *sidecallv1.ExecuteToolRequest {
		return &sidecallv1.ExecuteToolRequest{ToolUseId: id, ConversationId: "c", ToolName: "elicit"}
	}
	alone, err := tools.ExecuteTool(t.Context(), ask("1"))
	if err != nil || !strings.Contains(alone.GetContent(), "no answer: ") || !strings.Contains(alone.GetContent(), "no one caller") {
		t.Errorf("a caller without a stream: %v, %v", alone, err)
	}
	_, results := events(t, tools, &sidecallv1.ExecuteToolStreamRequest{Call: ask("2")})
	if len(results) != 1 || !strings.Contains(results[0].GetContent(), "cannot be asked") {
		t.Errorf("a caller who answers nothing: %v", results)
	}
	ctx, leave := context.WithCancel(t.Context())
	stream, err := tools.ExecuteToolStream(ctx, &sidecallv1.ExecuteToolStreamRequest{Call: ask("3"), Answers: true})
	if err != nil {
		t.Fatal(err)
	}
	event, err := stream.Recv()
	if err != nil || event.GetMcp().GetMethod() != "elicitation/create" || event.GetMcp().GetQuestionId() == "" || !strings.Contains(event.GetMcp().GetParamsJson(), "Who?") {
		t.Fatalf("the question is %v, %v", event, err)
	}
	leave()
	left, err := tools.ExecuteTool(t.Context(), ask("3"))
	if err != nil || !strings.Contains(left.GetContent(), "has left") {
		t.Errorf("a caller who has left: %v, %v", left, err)
	}
}
