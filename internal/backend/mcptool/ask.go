package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a server may ask of its client.
const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
)

// errNobodyToAsk is what a server is told that asks for something and gets nothing.
var errNobodyToAsk = errors.New("there is no one caller here who can be asked: none is, or there are several calls under way")

// offer has the server told that it may ask for what the config says.
func (b *Backend) offer(s *session, options *mcp.ClientOptions) {
	if slices.Contains(b.cfg.Asks, "elicitation") {
		options.ElicitationHandler = func(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return askCaller[mcp.ElicitResult](ctx, s, methodElicit, req.Params)
		}
	}
	if slices.Contains(b.cfg.Asks, "sampling") {
		options.CreateMessageWithToolsHandler = func(ctx context.Context, req *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) { //nolint:staticcheck // it works as long as servers have it
			return askCaller[mcp.CreateMessageWithToolsResult](ctx, s, methodSample, req.Params)
		}
	}
}

// askCaller asks the caller of the call that is under way.
func askCaller[R any](ctx context.Context, s *session, method string, params any) (*R, error) {
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
	result := new(R)
	return result, json.Unmarshal(answer, result)
}
