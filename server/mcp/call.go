package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/metadata"

	"github.com/sidecall/sidecall/internal/mcpresult"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// call runs one tools/call.
func (f *face) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	of, err := name(req.Params.Meta, scope(req, f.options.Scope))
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	if !utf8.Valid(req.Params.Arguments) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments: they are not valid UTF-8"}
	}
	if of.made {
		f.unnamed(req.Params.Name)
	}
	at := round{ID: of.ToolUse}
	again := req.Params.RequestState != "" || req.Params.InputResponses != nil
	if again {
		if at, err = continued(ctx, f.options.Tools, req.Params, &of); err != nil {
			return nil, err
		}
		if answer := refusedByUser(req.Params.InputResponses); answer != "" {
			return notSent(answer), nil
		}
	}
	round, err := handedOn(req, at)
	if err != nil {
		return nil, err
	}
	in := of.in(at)
	call := &sidecallv1.ExecuteToolStreamRequest{Mcp: round, Call: &sidecallv1.ExecuteToolRequest{
		ToolUseId: in.ToolUse, ConversationId: in.Conversation, TurnId: in.Turn, PromptId: in.Prompt,
		ToolName: req.Params.Name, ArgumentsJson: string(req.Params.Arguments), Profile: f.profile,
	}}
	ctx = traced(ctx, req.Params.GetMeta())
	res, task, err := f.runOrHand(ctx, req, in, call)
	switch {
	case task != nil:
		return handed(task), nil
	case err != nil:
		return nil, unanswered(err, of)
	case res.GetError().GetCode() == "UNKNOWN_TOOL":
		return nil, unknownTool(res.GetError())
	case res.GetInputRequiredJson() != "":
		at.Print = printOf(req.Params)
		return asked(ctx, f.options.Tools, res, of, at)
	case res.GetHold() != nil && mayAsk(req.Session, again) && (isStateless(req.Session) || !f.asking.full()):
		asks := waiting(res, req.Params, in, at)
		if isStateless(req.Session) {
			return asks, nil
		}
		return f.askUser(ctx, req, asks, res)
	}
	return mcpresult.Of(res), nil
}

// askUser asks a client with a session within its request, and goes on with its answer. Where there is none the
// call is answered as that of a client which cannot be asked.
func (f *face) askUser(ctx context.Context, req *sdk.CallToolRequest, asks *sdk.CallToolResult, held *sidecallv1.ExecuteToolResponse) (*sdk.CallToolResult, error) {
	question, _ := asks.InputRequests[approval].(*sdk.ElicitParams)
	answer, err := req.Session.Elicit(ctx, question)
	if err != nil {
		f.options.heard(err)
		return mcpresult.Of(held), nil
	}
	again, params := *req, *req.Params
	params.RequestState, params.InputResponses = asks.RequestState, sdk.InputResponseMap{approval: answer}
	again.Params = &params
	return f.call(ctx, &again)
}

// handedOn is what the tool's server is told beside the arguments.
func handedOn(req *sdk.CallToolRequest, at round) (*sidecallv1.McpRound, error) {
	handed := &sidecallv1.McpRound{RequestState: at.Server}
	if can := req.ClientCapabilities(); can != nil {
		encoded, err := json.Marshal(can)
		if err != nil {
			return nil, err
		}
		handed.CapabilitiesJson = string(encoded)
	}
	answers := make(sdk.InputResponseMap, len(req.Params.InputResponses))
	for name, answer := range req.Params.InputResponses {
		if name != approval {
			answers[name] = answer
		}
	}
	if len(answers) > 0 {
		encoded, err := json.Marshal(answers)
		if err != nil {
			return nil, err
		}
		handed.InputResponsesJson = string(encoded)
	}
	return handed, nil
}

// scope is what bounds the conversation of a request that names none; where there is no
// session to do it, otherwise.
func scope(req *sdk.CallToolRequest, otherwise string) string {
	if extra := req.GetExtra(); extra != nil && extra.Header.Get(conversationHeader) != "" {
		return extra.Header.Get(conversationHeader)
	}
	if req.Session != nil && req.Session.ID() != "" {
		return "mcp-session/" + req.Session.ID()
	}
	return otherwise
}

// traced hands the trace of a request on.
func traced(ctx context.Context, meta map[string]any) context.Context {
	var all []string
	for _, name := range []string{"traceparent", "tracestate", "baggage"} {
		if value, ok := meta[name].(string); ok && value != "" {
			all = append(all, name, value)
		}
	}
	return metadata.AppendToOutgoingContext(ctx, all...)
}

// approval names the question that a held call asks.
const approval = "dev.sidecall/approval"

// mayAsk reports whether a client can be asked to ask its user. One of the revisions with
// sessions is asked once, within its request.
func mayAsk(session *sdk.ServerSession, again bool) bool {
	params := session.InitializeParams()
	if params == nil || params.Capabilities == nil || params.Capabilities.Elicitation == nil {
		return false
	}
	if form, url := params.Capabilities.Elicitation.Form, params.Capabilities.Elicitation.URL; form == nil && url != nil {
		return false
	}
	return !again || params.ProtocolVersion >= stateless20260728
}

// shownArguments bounds the arguments that a user is shown, in bytes.
const shownArguments = 2000

// waiting has the client tell its user that a person has to allow the call, and send it again. The
// user's own yes allows nothing: that is said to the sidecar.
func waiting(res *sidecallv1.ExecuteToolResponse, params *sdk.CallToolParamsRaw, of named, at round) *sdk.CallToolResult {
	hold := res.GetHold()
	message := fmt.Sprintf("%s is held until a person allows it: %s. Nothing was sent. Its arguments: %s.",
		params.Name, hold.GetReason(), tool.ShortenBytes(string(params.Arguments), shownArguments))
	if until := hold.GetExpiresAt(); until != nil {
		message += fmt.Sprintf(" It can be allowed until %s", until.AsTime().UTC().Format(time.RFC3339))
	} else {
		message += " It is allowed"
	}
	message += fmt.Sprintf(" where the sidecar is looked after: sidecall approvals approve --conversation %q --id %q. Go on when that is done.", of.Conversation, of.ToolUse)
	at.Print = printOf(params)
	return &sdk.CallToolResult{
		InputRequests: sdk.InputRequestMap{approval: &sdk.ElicitParams{
			Mode: "form", Message: message, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
		}},
		RequestState: at.encode(),
	}
}

// refusedByUser is what a user answered who does not want to go on; empty for one who does.
func refusedByUser(responses sdk.InputResponseMap) string {
	if said, ok := responses[approval].(*sdk.ElicitResult); ok && said.Action != "accept" {
		return said.Action
	}
	return ""
}
