package sidecall

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// maxBatch is the most calls that one request may have.
const maxBatch = 128

// ExecuteTool runs one call; one whose effect must not be repeated at most once per
// (Conversation, Turn, ID).
func (c *Client) ExecuteTool(ctx context.Context, call Call) (*Result, error) {
	if call.ConversationID == "" {
		return nil, ErrNoConversation
	}
	var trailer metadata.MD
	request := call.request()
	result, err := c.service.ExecuteTool(ctx, request, grpc.Trailer(&trailer))
	if most := mostBytes(err, trailer); most != "" {
		return tooLarge(request, most), nil
	}
	return result, err
}

// ExecuteTools runs the calls of one assistant turn, in parallel where the tools allow
// it, and returns one result per call in the order of the calls. No calls, no
// results. A call that no request can hold costs one result, and not the others'.
func (c *Client) ExecuteTools(ctx context.Context, calls ...Call) ([]*Result, error) {
	requests := make([]*sidecallv1.ExecuteToolRequest, len(calls))
	for i, call := range calls {
		if call.ConversationID == "" {
			return nil, fmt.Errorf("calls[%d]: %w", i, ErrNoConversation)
		}
		requests[i] = call.request()
	}
	var results []*Result
	for batch := range slices.Chunk(requests, maxBatch) {
		more, err := c.batch(ctx, batch)
		if err != nil {
			return nil, err
		}
		results = append(results, more...)
	}
	return results, nil
}

func (c *Client) batch(ctx context.Context, calls []*sidecallv1.ExecuteToolRequest) ([]*Result, error) {
	var trailer metadata.MD
	response, err := c.service.ExecuteTools(ctx, &sidecallv1.ExecuteToolsRequest{Calls: calls}, grpc.Trailer(&trailer))
	if most := mostBytes(err, trailer); most != "" {
		if len(calls) == 1 {
			return []*Result{tooLarge(calls[0], most)}, nil
		}
		half := len(calls) / 2 // nothing was begun: less at a time, in their order
		first, err := c.batch(ctx, calls[:half])
		if err != nil {
			return nil, err
		}
		second, err := c.batch(ctx, calls[half:])
		return append(first, second...), err
	}
	if err != nil {
		return nil, err
	}
	results := response.GetResults()
	if len(results) != len(calls) {
		return nil, fmt.Errorf("%w: %d results for %d calls", ErrBrokenAnswer, len(results), len(calls))
	}
	for i, r := range results {
		if r.GetToolUseId() != calls[i].GetToolUseId() {
			return nil, fmt.Errorf("%w: result %d is of call %q, not %q", ErrBrokenAnswer, i, r.GetToolUseId(), calls[i].GetToolUseId())
		}
	}
	return results, nil
}

// mostBytes is how many bytes a request may have, when one was refused for having more:
// nothing of it was begun. It is empty of any other answer.
func mostBytes(err error, trailer metadata.MD) string {
	if most := trailer.Get("sidecall-max-request-bytes"); status.Code(err) == codes.ResourceExhausted && len(most) > 0 {
		return most[0]
	}
	return ""
}
