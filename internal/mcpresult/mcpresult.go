// Package mcpresult says the results of the sidecar in MCP, for its front and for what stands in for a
// server.
package mcpresult

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Fields are the five of every error, as models are told them.
type Fields struct {
	Code       string `json:"code"`
	Field      string `json:"field"`
	Constraint string `json:"constraint"`
	Received   string `json:"received"`
	Hint       string `json:"hint"`
}

// FieldsOf are those of an error.
func FieldsOf(e *sidecallv1.ToolError) Fields {
	return Fields{e.GetCode(), e.GetField(), e.GetConstraint(), e.GetReceived(), e.GetHint()}
}

// What the _meta of a result says beside what the model is told.
const (
	metaReplayed  = "dev.sidecall/replayed"
	metaOutputRef = "dev.sidecall/outputRef"
	metaStop      = "dev.sidecall/stop"
	metaNotices   = "dev.sidecall/notices"
	metaHold      = "dev.sidecall/hold"
)

// Of is a result as MCP has it.
func Of(res *sidecallv1.ExecuteToolResponse) *mcp.CallToolResult {
	out := &mcp.CallToolResult{IsError: res.GetIsError(), Content: []mcp.Content{}, Meta: meta(res)}
	if res.GetContent() != "" || len(res.GetBlocks()) == 0 {
		out.Content = append(out.Content, &mcp.TextContent{Text: res.GetContent()})
	}
	for _, b := range res.GetBlocks() {
		out.Content = append(out.Content, block(b))
	}
	switch {
	case res.GetError() != nil:
		out.StructuredContent = FieldsOf(res.GetError())
	case res.GetStructuredContentJson() != "":
		out.StructuredContent = json.RawMessage(res.GetStructuredContentJson())
	}
	return out
}

func meta(res *sidecallv1.ExecuteToolResponse) mcp.Meta {
	says := mcp.Meta{}
	if res.GetReplayed() {
		says[metaReplayed] = true
	}
	if ref := res.GetTruncation().GetOutputRef(); ref != "" {
		says[metaOutputRef] = ref
	}
	if res.GetStop() {
		says[metaStop] = true
	}
	if len(res.GetNotices()) > 0 {
		says[metaNotices] = res.GetNotices()
	}
	if hold := res.GetHold(); hold != nil {
		told := map[string]any{"reason": hold.GetReason(), "approved": hold.GetApproved()}
		if until := hold.GetExpiresAt(); until != nil {
			told["expiresAt"] = until.AsTime()
		}
		says[metaHold] = told
	}
	return says
}

// block is one block of a result. One that was left out is told by what is known of it.
func block(b *sidecallv1.ContentBlock) mcp.Content {
	switch {
	case b.GetType() == "resource_link":
		link := &mcp.ResourceLink{URI: b.GetUri(), Name: b.GetName(), MIMEType: b.GetMimeType()}
		if size := b.GetSize(); size > 0 {
			link.Size = &size
		}
		return link
	case len(b.GetData()) == 0 && b.GetText() == "" && (b.GetSize() > 0 || b.GetOutputRef() != ""):
		return &mcp.TextContent{Text: leftOut(b)}
	case b.GetType() == "image":
		return &mcp.ImageContent{Data: b.GetData(), MIMEType: b.GetMimeType()}
	case b.GetType() == "audio":
		return &mcp.AudioContent{Data: b.GetData(), MIMEType: b.GetMimeType()}
	default:
		contents := &mcp.ResourceContents{URI: b.GetUri(), MIMEType: b.GetMimeType(), Text: b.GetText(), Blob: b.GetData()}
		if contents.Text == "" && contents.Blob == nil {
			contents.Blob = []byte{} // one of the two has to be there, and the SDK leaves an empty text out
		}
		return &mcp.EmbeddedResource{Resource: contents}
	}
}

func leftOut(b *sidecallv1.ContentBlock) string {
	said := fmt.Sprintf("[%s %s, %d bytes: left out", b.GetType(), b.GetMimeType(), b.GetSize())
	if ref := b.GetOutputRef(); ref != "" {
		said += "; read_output with output_ref " + ref + " has it"
	}
	return said + "]"
}
