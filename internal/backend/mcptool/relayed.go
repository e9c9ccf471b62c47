package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// What follows is for who speaks with a server without the SDK, and reads what it says of
// tools as this backend does.

// Relayed is what a server answered to tools/call: exactly one of Result, Error and Size.
type Relayed struct {
	Result json.RawMessage
	Error  *jsonrpc.Error
	// Raw is Error as it came.
	Raw  json.RawMessage
	Size int64 // of an answer that was too large to be read
}

// Read turns an answer into what Invoke returns.
func (r Relayed) Read(call backend.Invocation) (backend.Reply, *tool.Failure) {
	a := answer{outcome: resulted, result: r.Result}
	switch {
	case r.Error != nil:
		a = answer{outcome: refused, rpc: r.Error}
	case r.Result == nil:
		a = answer{outcome: tooLarge, size: r.Size}
	}
	return read(a, call)
}

// IsOtherResult reports that an answer is no result, but another step of the protocol: a
// question to the client, the handle of a task, and what may come.
func IsOtherResult(failure *tool.Failure) bool {
	return failure != nil && (failure.ErrorType == errorTypeOther || failure.ErrorType == errorTypeInput)
}

// Unanswered is a call without an answer, under ctx. sent says that bytes of it may have left,
// err why there is none.
func Unanswered(ctx context.Context, sent bool, err error) *tool.Failure {
	return unansweredFailure(ctx, seen{sent: sent, answer: answer{err: err}}, err)
}

// Listing is a tool list that is read page by page, within the bounds of this backend.
type Listing struct {
	list toolList
	read Backend // as far as it says what is wrong with a tool
}

// NewListing begins a list. What is left out of it is logged.
func NewListing(log *slog.Logger) *Listing {
	return &Listing{list: newToolList(), read: Backend{log: log}}
}

// Add takes a result of tools/list, and returns where the list goes on; empty at its end.
func (l *Listing) Add(result json.RawMessage) (next string, err error) {
	var p page
	if err := json.Unmarshal(result, &p); err != nil {
		return "", fmt.Errorf("the tool list is not in the shape that MCP demands: %w", err)
	}
	if l.list.size += len(result); l.list.size > defaultMaxList || l.read.add(&l.list, p.Tools) {
		l.read.log.Warn("the server has more tools than are read")
		return "", nil
	}
	return p.NextCursor, nil
}

// Tools are those that were read.
func (l *Listing) Tools() []backend.Discovered { return l.list.tools }
