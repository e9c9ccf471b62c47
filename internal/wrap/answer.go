package wrap

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// tell is what the client is answered. What the server has just said stands as it said it, errors
// too, unless it is longer than a result may be; all else is the sidecar's: a result that was
// recorded, and why a call was not made or what became of it is not known.
func (r *Relay) tell(id json.RawMessage, name string, res *sidecallv1.ExecuteToolResponse, heard *mcptool.Relayed) []byte {
	says := content{relay: r, name: name, res: res}
	switch code := tool.Code(res.GetError().GetCode()); {
	case heard == nil || res.GetReplayed():
		if heard == nil && code == tool.CodeUnknownTool {
			return failed(id, codeInvalidParams, res.GetError().GetConstraint(), five(res.GetError()))
		}
		return answered(id, "result", says.recorded())
	case heard.Error != nil:
		return answered(id, "error", heard.Raw)
	case heard.Result == nil: // it was too large
		return answered(id, "result", says.recorded())
	case res.GetTruncation() != nil && !r.tools.readOutputIsTheirs(), res.GetLoop() != nil && res.GetError() == nil:
		return answered(id, "result", says.cut(heard.Result))
	}
	return answered(id, "result", heard.Result)
}

// five are the fields of an error.
func five(e *sidecallv1.ToolError) map[string]string {
	return map[string]string{
		"code": e.GetCode(), "field": e.GetField(), "constraint": e.GetConstraint(), "received": e.GetReceived(), "hint": e.GetHint(),
	}
}

// content makes a result of MCP of what the sidecar says.
type content struct {
	relay *Relay
	name  string
	res   *sidecallv1.ExecuteToolResponse
}

// block is one of content.
type block map[string]any

func textBlock(text string) block { return block{"type": "text", "text": text} }

// recorded is the result that the sidecar has. Where the call was answered with another step of
// the protocol it is that.
func (c content) recorded() []byte {
	for _, b := range c.res.GetBlocks() {
		if b.GetUri() == stepURI && jsontext.Value(b.GetText()).IsValid() {
			return []byte(b.GetText())
		}
	}
	blocks := []block{}
	if text := c.res.GetContent(); text != "" || len(c.res.GetBlocks()) == 0 {
		blocks = append(blocks, textBlock(text))
	}
	for _, b := range c.res.GetBlocks() {
		blocks = append(blocks, blockOf(b))
	}
	result := block{"content": blocks}
	switch structured := c.res.GetStructuredContentJson(); {
	case c.res.GetIsError():
		result["isError"] = true
		if !c.relay.tools.hasSchema(c.name) { // with which a client would compare it
			result["structuredContent"] = five(c.res.GetError())
		}
	case structured != "":
		result["structuredContent"] = json.RawMessage(structured)
	}
	if c.relay.stateless() {
		result["resultType"] = "complete"
	}
	return marshal(result)
}

// blockOf is a block that was recorded, or words in its place where it is kept elsewhere.
func blockOf(b *sidecallv1.ContentBlock) block {
	made := block{"type": b.GetType()}
	set := func(to block, name, value string) {
		if value != "" {
			to[name] = value
		}
	}
	data := base64.StdEncoding.EncodeToString(b.GetData())
	switch {
	case b.GetType() == "resource_link":
		set(made, "uri", b.GetUri())
		made["name"] = b.GetName()
		set(made, "mimeType", b.GetMimeType())
		return made
	case len(b.GetData()) == 0 && b.GetText() == "" && b.GetSize() > 0:
		return textBlock(fmt.Sprintf("[%s %s %s: %d bytes, not shown. output_ref: %q]", b.GetType(), b.GetMimeType(), b.GetUri(), b.GetSize(), b.GetOutputRef()))
	case b.GetType() == "resource":
		of := block{"uri": b.GetUri()}
		set(of, "mimeType", b.GetMimeType())
		if len(b.GetData()) > 0 {
			of["blob"] = data
		} else {
			of["text"] = b.GetText()
		}
		made["resource"] = of
		return made
	}
	made["data"], made["mimeType"] = data, b.GetMimeType()
	return made
}

// cut is a result of the server with the text that the sidecar shows of it. What it has beside its
// text stays, but for what says the same in another form, where no client asks for that.
func (c content) cut(result json.RawMessage) []byte {
	said, err := readObject(result)
	if err != nil {
		return c.recorded()
	}
	var blocks []json.RawMessage
	_ = json.Unmarshal(said.get("content"), &blocks) // what is no list was shown as text
	kept := []json.RawMessage{marshal(textBlock(c.res.GetContent()))}
	for _, one := range blocks {
		var of struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(one, &of) == nil && of.Type != "text" {
			kept = append(kept, one)
		}
	}
	said = said.set("content", marshal(kept))
	if !c.relay.tools.hasSchema(c.name) {
		said = said.set("structuredContent", nil)
	}
	return said.text()
}
