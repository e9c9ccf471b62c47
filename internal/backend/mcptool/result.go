package mcptool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// maxBlocks bounds the blocks of one result that are kept.
const maxBlocks = 1000

// maxSize is the largest size that is believed of what a server only links to.
const maxSize = 1 << 60

// toolResult is the result of tools/call.
type toolResult struct {
	Content    []block         `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
	ResultType any             `json:"resultType"`
	// InputRequests and RequestState are of one that asks for input.
	InputRequests json.RawMessage `json:"inputRequests"`
	RequestState  string          `json:"requestState"`
	// Task is in the place of a result in the protocol of 2025-11-25, which has no
	// types of results.
	Task any  `json:"task"`
	cut  bool // there were more blocks than are read
}

// The types of results that are known; none is resultComplete.
const (
	resultComplete      = "complete"
	resultInputRequired = "input_required"
	resultTask          = "task"
)

// kind is the type of a result. A task is work that goes on after its answer.
func (r toolResult) kind() any {
	switch {
	case r.Task != nil:
		return resultTask
	case r.ResultType == nil, r.ResultType == "":
		return resultComplete
	default:
		return r.ResultType
	}
}

// block is one content block of any type.
type block struct {
	Type     string    `json:"type"`
	Text     string    `json:"text"`
	Data     string    `json:"data"` // base64
	MIMEType string    `json:"mimeType"`
	URI      string    `json:"uri"`
	Name     string    `json:"name"`
	Size     *float64  `json:"size"`
	Resource *resource `json:"resource"`
}

type resource struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType"`
	Text     *string `json:"text"`
	Blob     string  `json:"blob"` // base64
}

// parse reads a result once; one with a member of the wrong type is read again,
// block by block, to keep what can be kept. So is a large one, as far as its blocks
// are not too many.
func parse(raw json.RawMessage) (toolResult, error) {
	var r toolResult
	if len(raw) <= largeAnswer && json.Unmarshal(raw, &r) == nil {
		return r, nil
	}
	var loose struct {
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    any             `json:"isError"`
		ResultType any             `json:"resultType"`
		Task       any             `json:"task"`
	}
	if err := json.Unmarshal(raw, &loose); err != nil {
		return toolResult{}, err
	}
	var blocks []json.RawMessage
	r = toolResult{Structured: loose.Structured, ResultType: loose.ResultType, Task: loose.Task}
	if len(loose.Content) > 0 && string(loose.Content) != "null" {
		var err error
		if blocks, r.cut, err = items(loose.Content, maxItems); err != nil {
			blocks = []json.RawMessage{loose.Content} // a single block without its array
		}
	}
	r.IsError, _ = loose.IsError.(bool)
	for _, item := range blocks {
		var bl block
		if json.Unmarshal(item, &bl) != nil {
			// What it says is shown as it is.
			bl = block{Type: "text", Text: strings.ToValidUTF8(string(item), "\uFFFD")}
		}
		r.Content = append(r.Content, bl)
	}
	return r, nil
}

// reply turns a result into a reply of at most limit bytes of text and as many
// of blocks; limit 0 means that the bound of the message is enough.
func (r toolResult) reply(limit int64) tool.Reply {
	if limit <= 0 {
		limit = 1 << 62
	}
	reply := tool.Reply{Cut: r.cut}
	texts, left := 0, limit
	for _, bl := range r.Content {
		if bl.isText() {
			if texts++; texts > 1 {
				addText(&reply, "\n", limit)
			}
			addText(&reply, bl.Text, limit)
			continue
		}
		if len(reply.Blocks) == maxBlocks {
			reply.Cut = true
			continue
		}
		kept := bl.keep(left)
		left -= int64(len(kept.Data) + len(kept.Text))
		reply.Blocks = append(reply.Blocks, kept)
	}
	if structured := bytes.TrimSpace(r.Structured); len(structured) > 0 && !bytes.Equal(structured, []byte("null")) {
		if int64(len(structured)) <= limit {
			reply.Structured = structured
		} else {
			reply.Cut = true
		}
		if texts == 0 && reply.Structured != nil {
			reply.Text, reply.Size, reply.JSON = structured, int64(len(structured)), true
			return reply
		}
	}
	reply.JSON = texts == 1 && !reply.Cut && backend.EvidentJSON(reply.Text)
	return reply
}

func addText(reply *tool.Reply, text string, limit int64) {
	reply.Size += int64(len(text))
	if left := limit - int64(len(reply.Text)); int64(len(text)) > left {
		for left > 0 && !utf8.RuneStart(text[left]) {
			left-- // no half of a character
		}
		text = text[:left]
		reply.Cut = true
	}
	reply.Text = append(reply.Text, text...)
}

// isText reports whether a block belongs to the text of the reply. A block of a
// type that nobody knows does when it has text.
func (bl block) isText() bool {
	switch bl.Type {
	case "text":
		return true
	case "image", "audio", "resource", "resource_link":
		return false
	default:
		return bl.Data == "" && bl.Resource == nil && bl.URI == ""
	}
}

// keep describes a block, with its content when that fits into room.
func (bl block) keep(left int64) tool.Block {
	kept := tool.Block{Type: bl.Type, MIMEType: bl.MIMEType, URI: bl.URI, Name: bl.Name}
	data := bl.Data
	if res := bl.Resource; res != nil {
		kept.URI, kept.MIMEType, data = res.URI, res.MIMEType, res.Blob
		if res.Text != nil {
			kept.Size = int64(len(*res.Text))
			if kept.Size <= left {
				kept.Text = *res.Text
			}
			return kept
		}
	}
	if bl.Size != nil {
		kept.Size = int64(min(max(*bl.Size, 0), maxSize))
	}
	if data == "" {
		return kept
	}
	kept.Size = int64(base64.StdEncoding.DecodedLen(len(data)))
	if kept.Size-2 > left {
		return kept
	}
	decoded, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return kept // described by its length, as unreadable as it is
	}
	kept.Size, kept.Data = int64(len(decoded)), decoded
	if kept.Size > left {
		kept.Data = nil
	}
	return kept
}

// read turns an answer into what Invoke returns.
func read(a answer, call backend.Invocation) (tool.Reply, *tool.Failure) {
	switch a.outcome {
	case resulted:
		r, err := parse(a.result)
		if err != nil {
			return tool.Reply{}, unreadable(tool.Definite, "the tool ran, but its result is not in the shape that MCP demands", err)
		}
		reply := r.reply(call.MaxBytes)
		switch kind := r.kind(); {
		case kind == resultInputRequired && call.Round.Asks():
			return question(map[string]any{"inputRequests": r.InputRequests, "requestState": r.RequestState}, "The tool asks for input before it goes on.")
		case kind == resultInputRequired:
			return reply, call.OwnWord(inputRequired())
		case kind != resultComplete:
			return tool.Reply{}, otherResult(kind)
		case r.IsError:
			return reply, toolFailure(reply, &call)
		}
		return reply, nil
	case refused:
		if a.rpc.Code == codeMissingCapability && call.Round != nil {
			return question(map[string]any{"error": a.rpc}, "The tool needs what this client cannot do.")
		}
		return tool.Reply{}, rpcFailure(a.rpc, &call)
	case tooLarge:
		return tool.Reply{Size: a.size}, unreadable(tool.Definite,
			fmt.Sprintf("the tool ran, but its result is too large to be read (at least %d bytes)", a.size), nil)
	case httpError:
		return statusReply(a), statusFailure(a, call)
	case notMCP:
		return statusReply(a), unreadable(tool.Ambiguous, "the server's answer is not MCP", a.err)
	case brokenOff:
		return tool.Reply{}, lost(a.err)
	case unanswered:
		panic("mcptool: there is no answer to read")
	default:
		panic(fmt.Sprintf("mcptool: no such outcome: %d", a.outcome))
	}
}

// codeMissingCapability is the error of a server that needs what the client has not declared.
const codeMissingCapability = -32021

// question is the reply of a tool that asks for input, or would have to.
func question(asks map[string]any, says string) (tool.Reply, *tool.Failure) {
	asked, err := json.Marshal(asks)
	if err != nil || len(asked) > maxQuestion {
		return tool.Reply{}, unreadable(tool.Definite, fmt.Sprintf("the tool asks for input by more than %d bytes, or by what cannot be read", maxQuestion), err)
	}
	return tool.Reply{Text: []byte(says), Size: int64(len(says)), InputRequired: bytes.ToValidUTF8(asked, []byte("\uFFFD"))}, nil
}

// statusReply is an HTTP answer that is no MCP message, for error mapping.
func statusReply(a answer) tool.Reply {
	reply := tool.Reply{Status: a.status, Text: a.body, Size: int64(len(a.body)), JSON: backend.EvidentJSON(a.body)}
	if len(a.header) > 0 {
		reply.Header = make(map[string]string, len(a.header))
		for name, values := range a.header {
			reply.Header[strings.ToLower(name)] = values[0]
		}
	}
	return reply
}
