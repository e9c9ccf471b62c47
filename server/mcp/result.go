package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

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
	code, said := int64(jsonrpc.CodeInternalError), s.Message()
	switch {
	case s.Code() == codes.InvalidArgument:
		code = jsonrpc.CodeInvalidParams
	case Unconnected(err):
		said = fmt.Sprintf("no sidecar answers now, and nothing was sent: send it again once it is back (%s)", said)
	}
	data, _ := json.Marshal(map[string]string{"status": s.Code().String()}) // of texts alone
	return &jsonrpc.Error{Code: code, Message: said, Data: data}
}

// Unconnected reports that there was no connection to send on, as gRPC has it.
func Unconnected(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.Unavailable && (strings.Contains(s.Message(), "while dialing") || strings.Contains(s.Message(), "server preface"))
}

// unanswered is the error of a call without an answer. Where the connection was lost, and it is not the sidecar that
// says why, it may have run.
func unanswered(err error, of named) error {
	s := status.Convert(err)
	if s.Code() != codes.Unavailable || Unconnected(err) || strings.Contains(s.Message(), "nothing was started") {
		return rpcError(err)
	}
	told := "the sidecar went away before it had answered, so the call may have run: only the same id is safe to send again"
	if of.made {
		told = "the sidecar went away before it had answered, so the call may have run, and has no id to send it again with: find out what became of it first"
	}
	return rpcError(status.Errorf(s.Code(), "%s (%s)", told, s.Message()))
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
