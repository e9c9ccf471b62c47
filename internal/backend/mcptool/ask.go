package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// handsOn are the words of the config for what a server may ask.
var handsOn = map[string]string{methodElicit: "elicitation", methodSample: "sampling"}

// errNobodyToAsk is what a server is told that asks for something and gets nothing.
var errNobodyToAsk = errors.New("there is no one caller here who can be asked: none is, or there are several calls under way, or one that was given up")

// offers are the capabilities by which a server is told that it may ask.
func (b *Backend) offers() *mcp.ClientCapabilities {
	c := new(mcp.ClientCapabilities) // no roots
	if slices.Contains(b.cfg.HandsOn, "elicitation") {
		c.Elicitation = new(mcp.ElicitationCapabilities)
	}
	if slices.Contains(b.cfg.HandsOn, "sampling") {
		c.Sampling = new(mcp.SamplingCapabilities) //nolint:staticcheck // it works as long as servers have it
	}
	if b.modern {
		c.AddExtension(tasksExtension, nil)
	}
	return c
}

// hearLog has the server told to send its log messages, where they are wanted.
func (b *Backend) hearLog(ctx context.Context, s *session) {
	said := s.client.InitializeResult()
	if !slices.Contains(b.cfg.HandsOn, "logging") || s.modern() || said == nil || said.Capabilities == nil || said.Capabilities.Logging == nil { //nolint:staticcheck // it works as long as servers have it
		return
	}
	if err := s.client.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}); err != nil { //nolint:staticcheck // it works as long as servers have it
		b.log.Warn("the server does not send its log messages", "error", err)
	}
}

// questioned hands what a server asks for on to the caller, as it came: the SDK's own handlers look
// at a question before it is asked, and refuse some that clients understand.
func questioned(s *session) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (_ mcp.Result, err error) {
			defer func() {
				if err != nil { // without a code it would have the code 0
					err = asRPC(err)
				}
			}()
			switch method {
			case methodElicit:
				return askCaller[mcp.ElicitResult](ctx, s, method, req.GetParams())
			case methodSample:
				return askCaller[mcp.CreateMessageWithToolsResult](ctx, s, method, req.GetParams()) //nolint:staticcheck // likewise
			default:
				return next(ctx, method, req)
			}
		}
	}
}

// askCaller asks the caller of the call that is under way.
func askCaller[T any, R interface {
	*T
	mcp.Result
}](ctx context.Context, s *session, method string, params mcp.Params) (mcp.Result, error) {
	caller := s.only()
	if caller == nil {
		return nil, errNobodyToAsk
	}
	encoded, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	answer, err := caller.Asked(ctx, method, encoded)
	if err != nil {
		return nil, err
	}
	result := R(new(T))
	return result, json.Unmarshal(answer, result)
}
