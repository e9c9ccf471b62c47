package mcptool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
)

var _ backend.Relay = (*Backend)(nil)

// forwarded are the methods that Forward knows: what the SDK does with the parameters of each.
var forwarded = map[string]func(ctx context.Context, s *session, params json.RawMessage) error{
	"resources/list":           sends((*mcp.ClientSession).ListResources),
	"resources/templates/list": sends((*mcp.ClientSession).ListResourceTemplates),
	"resources/read":           sends((*mcp.ClientSession).ReadResource),
	"prompts/list":             sends((*mcp.ClientSession).ListPrompts),
	"prompts/get":              sends((*mcp.ClientSession).GetPrompt),
	"completion/complete":      sends((*mcp.ClientSession).Complete),
}

// nothing is a result that says nothing.
var nothing = json.RawMessage(`{}`)

// sends is a method of the SDK for parameters that are JSON. Its result is the one that the
// SDK was given, and is not looked at.
func sends[T, R any, P interface {
	*T
	mcp.Params
}](method func(*mcp.ClientSession, context.Context, P) (R, error)) func(context.Context, *session, json.RawMessage) error {
	return func(ctx context.Context, s *session, raw json.RawMessage) error {
		params := P(new(T))
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, params); err != nil {
				return &backend.Refusal{Code: -32602, Message: err.Error()}
			}
		}
		s.own(params.GetMeta())
		_, err := method(s.client, ctx, params)
		return err
	}
}

// Forward implements backend.Relay.
func (b *Backend) Forward(ctx context.Context, method string, params json.RawMessage, memory backend.Memory) (json.RawMessage, error) {
	send, known := forwarded[method]
	if !known {
		return nil, &backend.Refusal{Code: -32601, Message: fmt.Sprintf("%q is not handed on", method)}
	}
	return b.hand(ctx, memory, func(ctx context.Context, s *session) error { return send(ctx, s, params) })
}

// hand hands a request on.
func (b *Backend) hand(ctx context.Context, memory backend.Memory, send func(context.Context, *session) error) (json.RawMessage, error) {
	s, failure := b.state.acquire(ctx)
	if failure != nil {
		return nil, failure.Err
	}
	defer s.leave()
	a, err := s.exchange(ctx, &capture{memory: memory}, func(ctx context.Context) error { return send(ctx, s) })
	switch {
	case a.outcome == unanswered && err == nil: // the SDK has it from elsewhere
		return nothing, nil
	case a.outcome == resulted:
		return a.result, nil
	case a.outcome == refused:
		return nil, &backend.Refusal{Code: a.rpc.Code, Message: a.rpc.Message, Data: a.rpc.Data}
	case a.outcome == tooLarge:
		return nil, fmt.Errorf("the answer is too large to be read (at least %d bytes)", a.size)
	case a.outcome == httpError:
		return nil, fmt.Errorf("the server answers with HTTP status %d", a.status)
	case a.err != nil:
		return nil, withoutURL(a.err)
	default:
		return nil, withoutURL(err)
	}
}

// modern reports that the session is of the revision without sessions.
func (s *session) modern() bool {
	said := s.client.InitializeResult()
	return said != nil && said.ProtocolVersion >= newestProtocol
}

// hand puts what a client of MCP says beside its arguments into the parameters of a call. Only
// in the revision without sessions a server hears of it.
func (s *session) hand(round *backend.Round, params *mcp.CallToolParams) error {
	if !s.modern() {
		return nil
	}
	if round.Asks() {
		can, err := withTasks(round.Capabilities)
		if err != nil {
			return err
		}
		params.Meta[mcp.MetaKeyClientCapabilities] = can
	}
	params.RequestState = round.State
	if len(round.Responses) == 0 {
		return nil
	}
	return json.Unmarshal(round.Responses, &params.InputResponses)
}

// own takes out of the _meta of a request that is handed on what is said of its sender's
// connection.
func (s *session) own(meta mcp.Meta) {
	delete(meta, mcp.MetaKeyProtocolVersion)
	delete(meta, mcp.MetaKeyClientInfo)
	if !s.modern() {
		delete(meta, mcp.MetaKeyClientCapabilities)
	}
}
