package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// run makes a call and returns its result. What is heard of it its client is told, as long as told
// lasts.
func (f *face) run(ctx, told context.Context, req *sdk.CallToolRequest, call *sidecallv1.ExecuteToolStreamRequest) (*sidecallv1.ExecuteToolResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer func() {
		cancel() // whoever still waits for an answer waits for nothing
		asking.Wait()
	}()
	// A later one is asked by the result of a round.
	call.Answers = !isStateless(req.Session)
	stream, err := f.options.Tools.ExecuteToolStream(ctx, call)
	if err != nil {
		return nil, err
	}
	for {
		event, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errors.New("the sidecar has ended the call without a result")
		case err != nil:
			return nil, err
		case event.GetResult() != nil:
			return event.GetResult(), nil
		case event.GetProgress() != nil:
			f.progressed(told, req, event.GetProgress())
		case event.GetMcp().GetQuestionId() != "":
			asking.Go(func() { f.answer(ctx, req.Session, event.GetMcp()) })
		case event.GetMcp() != nil:
			f.said(told, req.Session, event.GetMcp())
		}
	}
}

// progressed tells a client that wants to hear of it how far its call has come.
func (f *face) progressed(ctx context.Context, req *sdk.CallToolRequest, p *sidecallv1.CallProgress) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return
	}
	f.heard(req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
		ProgressToken: token, Message: p.GetNote(), Progress: p.GetProgress(), Total: p.GetTotal(),
	}))
}

// said hands a notification on.
func (f *face) said(ctx context.Context, session *sdk.ServerSession, m *sidecallv1.McpMessage) {
	params := new(sdk.LoggingMessageParams) //nolint:staticcheck // it works as long as clients have it
	if m.GetMethod() != "notifications/message" || json.Unmarshal([]byte(m.GetParamsJson()), params) != nil {
		return
	}
	f.heard(session.Log(ctx, params)) //nolint:staticcheck // likewise
}

// answer asks a client what a server wants of it, and hands the answer back.
func (f *face) answer(ctx context.Context, session *sdk.ServerSession, m *sidecallv1.McpMessage) {
	result, err := f.askClient(ctx, session, m.GetMethod(), []byte(m.GetParamsJson()))
	answer := &sidecallv1.AnswerRequest{QuestionId: m.GetQuestionId()}
	encoded, wrong := json.Marshal(result)
	if err = errors.Join(err, wrong); err != nil {
		answer.Refusal = err.Error()
	} else {
		answer.ResultJson = string(encoded)
	}
	_, err = f.options.Servers.Answer(ctx, answer)
	f.heard(err)
}

func (f *face) askClient(ctx context.Context, session *sdk.ServerSession, method string, params []byte) (_ any, err error) {
	defer f.recovered(method, &err)
	switch method {
	case "elicitation/create":
		return asks(ctx, params, session.Elicit)
	case "sampling/createMessage":
		return asks(ctx, params, session.CreateMessageWithTools) //nolint:staticcheck // it works as long as clients have it
	case "roots/list":
		return asks(ctx, params, session.ListRoots) //nolint:staticcheck // likewise
	default:
		return nil, fmt.Errorf("%q is nothing that a client is asked for", method)
	}
}

func asks[P, R any](ctx context.Context, raw []byte, ask func(context.Context, *P) (R, error)) (any, error) {
	params := new(P)
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, params); err != nil {
			return nil, err
		}
	}
	return ask(ctx, params)
}
