package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/mcpresult"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// notSent answers a held call whose user did not want to wait.
func notSent(answered string) *sdk.CallToolResult {
	told := mcpresult.Fields{
		Code: "APPROVAL_REQUIRED", Constraint: "a person has to allow this call before it is sent", Received: answered,
		Hint: "Nothing was sent. Tell the user that the call still needs to be allowed, and do not call it again under another id.",
	}
	encoded, _ := json.Marshal(told) // of texts alone
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: string(encoded)}}, StructuredContent: told}
}

// unknownTool is the error of a tool that there is not: MCP has it as one of the protocol.
func unknownTool(e *sidecallv1.ToolError) error {
	data, _ := json.Marshal(mcpresult.FieldsOf(e)) // of texts alone
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool: %s %s", e.GetConstraint(), e.GetHint()), Data: data}
}

// rpcError makes an error of JSON-RPC of a status that is for the program.
func rpcError(err error) error {
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return rpc
	}
	s := status.Convert(err)
	code := int64(jsonrpc.CodeInternalError)
	if s.Code() == codes.InvalidArgument {
		code = jsonrpc.CodeInvalidParams
	}
	data, _ := json.Marshal(map[string]string{"status": s.Code().String()}) // of texts alone
	return &jsonrpc.Error{Code: code, Message: s.Message(), Data: data}
}

// httpStatus is that of an error before there is a request of MCP.
func httpStatus(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return http.StatusNotFound // there is no such profile
	case codes.ResourceExhausted, codes.Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
