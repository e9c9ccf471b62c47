package mcptool

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// What follows is for who speaks with a server without the SDK, and reads what it says of
// tools as this backend does.

// Relayed is what a server answered to a request: exactly one of Result, Error and Size. A Remote
// knows of others, which were not answered, or with an error of HTTP, which may have an Error in it.
type Relayed struct {
	Result json.RawMessage
	Error  *jsonrpc.Error
	// Raw is Error as it came.
	Raw  json.RawMessage
	Size int64 // of an answer that was too large to be read

	known *seen // of a request that has no answer of its own
}

// unheard is what is known of a request whose answer was not heard.
func unheard(known seen) Relayed {
	r := Relayed{known: &known}
	switch {
	case known.outcome == tooLarge:
		return Relayed{Size: known.size}
	case known.outcome == httpError && known.rpc != nil && known.session == sessionKept:
		var says struct {
			Error json.RawMessage `json:"error"`
		}
		_ = json.Unmarshal(known.body, &says) // which is where the error comes from
		r.Error, r.Raw = known.rpc, says.Error
	}
	return r
}

// Said reports that the server has said something of MCP.
func (r Relayed) Said() bool { return r.known == nil || r.Error != nil }

// Withheld reports that a message was not sent, since the right to was gone.
func Withheld(err error) bool { return errors.Is(err, errWithheld) }

// Forgotten reports that a request was refused because its session is not known any more: it was not
// carried out, and may be sent in the next one.
func (r Relayed) Forgotten() bool { return r.known != nil && r.known.session == sessionGone }

// Why says to a client why its request has no answer.
func (r Relayed) Why(ctx context.Context) string {
	_, f := r.Read(ctx, backend.Invocation{})
	if f.Err == nil {
		return f.Constraint
	}
	return f.Constraint + ": " + withoutURL(f.Err).Error()
}

// Read turns an answer into what Invoke returns.
func (r Relayed) Read(ctx context.Context, call backend.Invocation) (tool.Reply, *tool.Failure) {
	a := answer{outcome: resulted, result: r.Result}
	switch {
	case r.known != nil && r.known.withheld:
		return tool.Reply{}, backend.LeaseLost()
	case r.known != nil && r.known.outcome == unanswered:
		return tool.Reply{}, unansweredFailure(ctx, *r.known, r.known.err)
	case r.known != nil:
		return read(r.known.answer, call)
	}
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

// Keyed reports that a server says that it honours the idempotency key of a call, in the result with
// which it tells what it can.
func Keyed(result json.RawMessage) bool {
	var says mcp.InitializeResult
	return json.Unmarshal(result, &says) == nil && keyed(&says)
}
