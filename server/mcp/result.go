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

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// fields are the five of every error, as models are told them.
type fields struct {
	Code       string `json:"code"`
	Field      string `json:"field"`
	Constraint string `json:"constraint"`
	Received   string `json:"received"`
	Hint       string `json:"hint"`
}

func fieldsOf(e *sidecallv1.ToolError) fields {
	return fields{e.GetCode(), e.GetField(), e.GetConstraint(), e.GetReceived(), e.GetHint()}
}

// What the _meta of a result says beside what the model is told.
const (
	metaReplayed  = "dev.sidecall/replayed"
	metaOutputRef = "dev.sidecall/outputRef"
	metaStop      = "dev.sidecall/stop"
	metaNotices   = "dev.sidecall/notices"
	metaHold      = "dev.sidecall/hold"
)

// rendered is a result as MCP has it.
func rendered(res *sidecallv1.ExecuteToolResponse) *sdk.CallToolResult {
	out := &sdk.CallToolResult{IsError: res.GetIsError(), Content: []sdk.Content{}, Meta: sdk.Meta{}}
	if res.GetContent() != "" || len(res.GetBlocks()) == 0 {
		out.Content = append(out.Content, &sdk.TextContent{Text: res.GetContent()})
	}
	for _, b := range res.GetBlocks() {
		out.Content = append(out.Content, block(b))
	}
	switch {
	case res.GetError() != nil:
		out.StructuredContent = fieldsOf(res.GetError())
	case res.GetStructuredContentJson() != "":
		out.StructuredContent = json.RawMessage(res.GetStructuredContentJson())
	}
	if res.GetReplayed() {
		out.Meta[metaReplayed] = true
	}
	if ref := res.GetTruncation().GetOutputRef(); ref != "" {
		out.Meta[metaOutputRef] = ref
	}
	if res.GetStop() {
		out.Meta[metaStop] = true
	}
	if len(res.GetNotices()) > 0 {
		out.Meta[metaNotices] = res.GetNotices()
	}
	if hold := res.GetHold(); hold != nil {
		told := map[string]any{"reason": hold.GetReason(), "approved": hold.GetApproved()}
		if until := hold.GetExpiresAt(); until != nil {
			told["expiresAt"] = until.AsTime()
		}
		out.Meta[metaHold] = told
	}
	return out
}

// block is one block of a result. One that was left out is told by what is known of it.
func block(b *sidecallv1.ContentBlock) sdk.Content {
	if b.GetOutputRef() != "" && len(b.GetData()) == 0 && b.GetText() == "" {
		return &sdk.TextContent{Text: fmt.Sprintf("[%s %s, %d bytes: left out; read_output with output_ref %s has it]", b.GetType(), b.GetMimeType(), b.GetSize(), b.GetOutputRef())}
	}
	switch b.GetType() {
	case "image":
		return &sdk.ImageContent{Data: b.GetData(), MIMEType: b.GetMimeType()}
	case "audio":
		return &sdk.AudioContent{Data: b.GetData(), MIMEType: b.GetMimeType()}
	case "resource_link":
		link := &sdk.ResourceLink{URI: b.GetUri(), Name: b.GetName(), MIMEType: b.GetMimeType()}
		if size := b.GetSize(); size > 0 {
			link.Size = &size
		}
		return link
	default:
		return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: b.GetUri(), MIMEType: b.GetMimeType(), Text: b.GetText(), Blob: b.GetData()}}
	}
}

// notSent answers a held call whose user did not want to wait.
func notSent(answered string) *sdk.CallToolResult {
	told := fields{
		Code: "APPROVAL_REQUIRED", Constraint: "a person has to allow this call before it is sent", Received: answered,
		Hint: "Nothing was sent. Tell the user that the call still needs to be allowed, and do not call it again under another id.",
	}
	encoded, _ := json.Marshal(told) // of texts alone
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: string(encoded)}}, StructuredContent: told}
}

// unknownTool is the error of a tool that there is not: MCP has it as one of the protocol.
func unknownTool(e *sidecallv1.ToolError) error {
	data, _ := json.Marshal(fieldsOf(e)) // of texts alone
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
	case codes.ResourceExhausted:
		return http.StatusServiceUnavailable
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
