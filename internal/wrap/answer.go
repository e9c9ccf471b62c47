package wrap

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend/mcptool"
	"github.com/sidecall/sidecall/internal/mcpresult"
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
			return failed(id, codeInvalidParams, res.GetError().GetConstraint(), mcpresult.FieldsOf(res.GetError()))
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

// content makes a result of MCP of what the sidecar says.
type content struct {
	relay *Relay
	name  string
	res   *sidecallv1.ExecuteToolResponse
}

// recorded is the result that the sidecar has. Where the call was answered with another step of
// the protocol it is that.
func (c content) recorded() []byte {
	if step := c.res.GetInputRequiredJson(); step != "" {
		return []byte(step)
	}
	made := mcpresult.Of(c.res)
	made.Meta = nil                                            // the server has said none
	if c.res.GetIsError() && c.relay.tools.hasSchema(c.name) { // with which a client would compare it
		made.StructuredContent = nil
	}
	if result, err := readObject(marshal(made)); err == nil && c.relay.opening.said().stateless() {
		return result.set("resultType", marshal("complete")).text()
	}
	return marshal(made)
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
	kept := []json.RawMessage{marshal(&mcp.TextContent{Text: c.res.GetContent()})}
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
