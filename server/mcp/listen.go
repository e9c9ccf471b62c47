package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// caller is a client that makes a call, and hears of it while it runs.
type caller struct {
	*Options

	session  *sdk.ServerSession
	progress any // the token of what it wants to hear of how far its call has come; nil for nothing
}

// run makes a call and returns its result. What is heard of it its client is told, as long as told
// lasts.
func (c caller) run(ctx, told context.Context, call *sidecallv1.ExecuteToolStreamRequest) (*sidecallv1.ExecuteToolResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer func() {
		cancel() // whoever still waits for an answer waits for nothing
		asking.Wait()
	}()
	// A later one is asked by the result of a round.
	call.Answers = !isStateless(c.session)
	stream, err := c.Tools.ExecuteToolStream(ctx, call)
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
			c.progressed(told, event.GetProgress())
		case event.GetMcp().GetQuestionId() != "":
			asking.Go(func() { c.answer(ctx, event.GetMcp()) })
		case event.GetMcp() != nil:
			c.said(told, event.GetMcp())
		}
	}
}

// progressed tells a client that wants to hear of it how far its call has come.
func (c caller) progressed(ctx context.Context, p *sidecallv1.CallProgress) {
	if c.progress == nil {
		return
	}
	c.heard(c.session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
		ProgressToken: c.progress, Message: p.GetNote(), Progress: p.GetProgress(), Total: p.GetTotal(),
	}))
}

// said hands a notification on.
func (c caller) said(ctx context.Context, m *sidecallv1.McpMessage) {
	params := new(sdk.LoggingMessageParams) //nolint:staticcheck // it works as long as clients have it
	if m.GetMethod() != "notifications/message" || json.Unmarshal([]byte(m.GetParamsJson()), params) != nil {
		return
	}
	c.heard(c.session.Log(ctx, params)) //nolint:staticcheck // likewise
}

// answer asks a client what a server wants of it, and hands the answer back.
func (c caller) answer(ctx context.Context, m *sidecallv1.McpMessage) {
	result, err := c.ask(ctx, m.GetMethod(), []byte(m.GetParamsJson()))
	answer := &sidecallv1.AnswerRequest{QuestionId: m.GetQuestionId()}
	encoded, wrong := json.Marshal(result)
	if err = errors.Join(err, wrong); err != nil {
		if said, ok := errors.AsType[*jsonrpc.Error](err); ok { // the client's, without the library's words
			err = said
		}
		answer.Refusal = err.Error()
	} else {
		answer.ResultJson = string(encoded)
	}
	_, err = c.Servers.Answer(ctx, answer)
	c.heard(err)
}

func (c caller) ask(ctx context.Context, method string, params []byte) (_ any, err error) {
	defer c.recovered(method, &err)
	switch method {
	case "elicitation/create":
		return asks(ctx, params, c.session.Elicit)
	case "sampling/createMessage":
		return asks(ctx, params, c.session.CreateMessageWithTools) //nolint:staticcheck // it works as long as clients have it
	case "roots/list":
		return asks(ctx, params, c.session.ListRoots) //nolint:staticcheck // likewise
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
