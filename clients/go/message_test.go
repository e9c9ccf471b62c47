package sidecall_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/internal/provider"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// reading reads messages as a sidecar does.
type reading struct {
	sidecallv1.UnimplementedToolServiceServer
}

func (reading) ReadMessage(_ context.Context, r *sidecallv1.ReadMessageRequest) (*sidecallv1.ReadMessageResponse, error) {
	read, err := readTurn(r.GetMessageJson())
	if err != nil {
		return nil, err
	}
	return &sidecallv1.ReadMessageResponse{
		Provider: string(read.Format), Id: read.ID, Calls: int32(len(read.Calls)), Cut: read.Cut, ExitReason: read.ExitReason(), Tokens: read.Tokens,
		MessagesJson: read.Messages,
	}, nil
}

func readTurn(message string) (*provider.Turn, error) {
	read, err := provider.Read(message)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "message_json: %v", err)
	}
	return read, nil
}

type runs func(context.Context, *sidecallv1.ExecuteToolsRequest) (*sidecallv1.ExecuteToolsResponse, error)

// message runs the calls of a message as one batch.
func (run runs) message(ctx context.Context, r *sidecallv1.RunMessageRequest) (*sidecallv1.RunMessageResponse, error) {
	read, err := readTurn(r.GetMessageJson())
	if err != nil {
		return nil, err
	}
	if read.Cut != "" { // they are not run
		results := make([]*sidecallv1.ExecuteToolResponse, len(read.Calls))
		for i, c := range read.Calls {
			results[i] = &sidecallv1.ExecuteToolResponse{ToolUseId: c.ID, IsError: true}
		}
		return answered(read.Format, results)
	}
	return run.calls(ctx, read.Format, read.Calls, r.GetShared(), read.ID)
}

// calls runs calls that belong to a turn unless they are said to belong to another.
func (run runs) calls(ctx context.Context, format provider.Format, calls []provider.Made, shared *sidecallv1.ExecuteToolRequest, turn string) (*sidecallv1.RunMessageResponse, error) {
	batch := &sidecallv1.ExecuteToolsRequest{}
	for _, c := range calls {
		one := proto.CloneOf(shared)
		one.ToolUseId, one.ToolName, one.ArgumentsJson, one.TurnId = c.ID, c.Tool, c.Arguments, cmp.Or(one.GetTurnId(), turn)
		batch.Calls = append(batch.Calls, one)
	}
	response, err := run(ctx, batch)
	if err != nil {
		return nil, err
	}
	return answered(format, response.GetResults())
}

func answered(format provider.Format, results []*sidecallv1.ExecuteToolResponse) (*sidecallv1.RunMessageResponse, error) {
	messages, err := provider.Answers(format, results)
	answer := &sidecallv1.RunMessageResponse{Results: results, BudgetExceeded: len(results) > 0}
	for _, m := range messages {
		answer.MessagesJson = append(answer.MessagesJson, string(m))
	}
	for _, one := range results {
		answer.Stop = answer.GetStop() || one.GetStop()
		answer.RequireEscalation = answer.GetRequireEscalation() || one.GetRecovery().GetRequireEscalation()
		answer.BudgetExceeded = answer.GetBudgetExceeded() && one.GetError().GetCode() == "BUDGET_EXCEEDED"
	}
	return answer, err
}

// asSDK is the value of an SDK that knows what it was read from.
type asSDK struct{ raw string }

func (s asSDK) RawJSON() string { return s.raw }

// A message goes over the wire untouched, in whatever form it is given.
func TestAMessageInItsForms(t *testing.T) {
	const text = `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{"n":1.0}}]}`
	var value any = json.RawMessage(text)
	for _, form := range []any{text, []byte(text), json.RawMessage(text), asSDK{text}, map[string]any{"choices": value}} {
		var sent string
		client := connect(t, fake{message: func(r *sidecallv1.RunMessageRequest) { sent = r.GetMessageJson() }})
		_, err := client.RunTools(t.Context(), form, sidecall.Call{ConversationID: "c"})
		if sent != text && sent != `{"choices":`+text+`}` {
			t.Errorf("%T: sent %s, %v", form, sent, err)
		}
	}
}

func TestWhatIsNoMessage(t *testing.T) {
	client := connect(t, fake{})
	for _, message := range []any{nil, `{"role":"user","content":"hi"}`, func() {}} {
		if _, err := client.RunTools(t.Context(), message, sidecall.Call{ConversationID: "c"}); !errors.Is(err, sidecall.ErrWrongMessage) {
			t.Errorf("%v: %v", message, err)
		}
	}
}
