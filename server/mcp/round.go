package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/mcpresult"
	"github.com/sidecall/sidecall/internal/schema"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// round is where a request of several rounds is: the state that its client sends back.
type round struct {
	// ID is that of the first round, whether the client has named it or it was made.
	ID string `json:"id"`
	// Asked is the id of the round in which the tool has asked for input, and Server the state that
	// its server gave then. Empty where only a person was waited for.
	Asked  string `json:"asked,omitempty"`
	Server string `json:"server,omitempty"`
	// Print is that of the tool with its arguments, which are the same in every round.
	Print string `json:"print,omitempty"`
}

// printOf is one print of however the same arguments are written. Those that cannot be read have
// one too, of a call that asks for nothing.
func printOf(params *sdk.CallToolParamsRaw) string {
	canonical := []byte(params.Arguments)
	if args, wrong := schema.ParseArgs(params.Name, string(params.Arguments)); wrong == nil {
		if written, err := schema.Canonical(args); err == nil {
			canonical = written
		}
	}
	sum := schema.Fingerprint(params.Name, canonical)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// encode is the state as a client gets it. It is no secret, and proves nothing: what it says of a
// call is believed as far as the call's record says it too.
func (r round) encode() string { return sealed(r) }

// decodeRound reads a state that a client has sent back.
func decodeRound(state string) (r round, err error) {
	if !unsealed(state, &r) || r.ID == "" {
		return r, errState
	}
	return r, nil
}

// sealed is what a client keeps for this server: one text, by which a change is noticed.
func sealed(v any) string {
	encoded, _ := json.Marshal(v) // of texts alone
	sum := sha256.Sum256(encoded)
	return base64.RawURLEncoding.EncodeToString(append(sum[:8:8], encoded...))
}

// unsealed reads what a client has kept; false of what is none.
func unsealed(s string, v any) bool {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) < 8 {
		return false
	}
	sum := sha256.Sum256(raw[8:])
	return bytes.Equal(sum[:8], raw[:8]) && json.Unmarshal(raw[8:], v) == nil
}

var errState = wrongState("it is none that this server has given: send requestState as it came, or the request anew without it")

func wrongState(why string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState: " + why}
}

// continued finds the call that a further round of a request is, and where it is.
func continued(ctx context.Context, tools sidecallv1.ToolServiceClient, params *sdk.CallToolParamsRaw, of *named) (round, error) {
	at, err := decodeRound(params.RequestState)
	switch {
	case err != nil:
		return at, err
	case at.Print != printOf(params):
		return at, wrongState("it is of a call with other arguments: send requestState with those that it was given for, or the request anew without it")
	case of.made:
		of.again(at.ID)
	case at.ID != of.ToolUse:
		return at, wrongState("it is of another call than _meta says")
	}
	before := *of
	if at.Asked != "" {
		before.ToolUse = at.Asked
	}
	known, err := before.execution(ctx, tools)
	switch status.Code(err) {
	case codes.OK, codes.DataLoss: // what is lost, its execution tells
	case codes.NotFound:
		return at, wrongState("there is no such call of this caller: it is of another session, or is forgotten")
	default:
		return at, rpcError(err)
	}
	if at.Asked != "" && !at.follows(known, params.Name) {
		return at, errState
	}
	return at, nil
}

// follows reports that the round is the answer to what a call has asked for, by its record. So no
// client makes up a round, which would have the effect of its call once more.
func (r round) follows(asked *sidecallv1.Execution, tool string) bool {
	var q question
	return (r.Asked == r.ID || strings.HasPrefix(r.Asked, r.ID+"#")) && asked.GetToolName() == tool &&
		json.Unmarshal([]byte(asked.GetResult().GetInputRequiredJson()), &q) == nil && q.Error == nil && q.RequestState == r.Server
}

// in is the call of a round: each has an id of its own, which is the same whenever the round is
// repeated.
func (n named) in(at round) named {
	if at.Asked != "" {
		state, _ := json.Marshal(at.encode()) // a text
		n.Call = n.Round(state)
	}
	return n
}

func (n named) execution(ctx context.Context, tools sidecallv1.ToolServiceClient) (*sidecallv1.Execution, error) {
	return tools.GetExecution(ctx, &sidecallv1.GetExecutionRequest{ConversationId: n.Conversation, TurnId: n.Turn, ToolUseId: n.ToolUse})
}

// question is what a tool asks for before it goes on.
type question struct {
	InputRequests json.RawMessage `json:"inputRequests,omitempty"`
	RequestState  string          `json:"requestState,omitempty"`
	ResultType    string          `json:"resultType"`
	// Error is in the place of a question that this client cannot be asked.
	Error *jsonrpc.Error `json:"error,omitempty"`
}

// asked is the answer of a round in which the tool has asked for input: the question, with a state
// of ours around its server's. A round that is repeated after the request has ended is answered
// with its end.
func asked(ctx context.Context, tools sidecallv1.ToolServiceClient, res *sidecallv1.ExecuteToolResponse, of named, at round) (*sdk.CallToolResult, error) {
	for {
		var q question
		if err := json.Unmarshal([]byte(res.GetInputRequiredJson()), &q); err != nil {
			return nil, err
		}
		if q.Error != nil {
			return nil, q.Error
		}
		at = round{ID: at.ID, Asked: of.in(at).ToolUse, Server: q.RequestState, Print: at.Print}
		if res.GetReplayed() {
			next, err := of.in(at).execution(ctx, tools)
			if err == nil && next.GetState() == sidecallv1.ExecutionState_EXECUTION_STATE_DONE && next.GetResult() != nil {
				if res = next.GetResult(); res.GetInputRequiredJson() == "" {
					res.Replayed = true
					return mcpresult.Of(res), nil
				}
				res.Replayed = true
				continue
			}
		}
		q.RequestState, q.ResultType = at.encode(), "input_required"
		encoded, err := json.Marshal(q)
		if err != nil {
			return nil, err
		}
		asked := new(sdk.CallToolResult)
		if err := json.Unmarshal(encoded, asked); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the tool asks for input in a way that MCP does not have: " + err.Error()}
		}
		return asked, nil
	}
}
