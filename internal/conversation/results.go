package conversation

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/provider"
)

// span is the content of a result in the text of a message: all that a compaction
// changes.
type span struct {
	id         string
	start, end int // in bytes
}

// resultsIn are the results of a message, in their order.
func resultsIn(format provider.Format, raw string) ([]span, error) {
	m, err := partsOf([]byte(raw), 0)
	if err != nil {
		return nil, err
	}
	switch {
	case format == provider.Anthropic && m.text("role") == "user":
		return m.blocks("content")
	case format == provider.OpenAI && m.text("role") == "tool":
		return m.result("tool_call_id", "content"), nil
	case format == provider.OpenAIResponses:
		if kind := m.text("type"); kind == "function_call_output" || kind == "custom_tool_call_output" { // what others have is no text
			return m.result("call_id", "output"), nil
		}
	}
	return nil, nil
}

// part is a member of an object, and where its value begins in the message.
type part struct {
	value jsontext.Value
	start int
}

type parts map[string]part

// partsOf are the members of an object that begins at a place of the message.
func partsOf(raw []byte, at int) (parts, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), provider.Reading)
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	found := parts{}
	for dec.PeekKind() == jsontext.KindString {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		switch key {
		case "type", "role", "content", "tool_use_id", "tool_call_id", "call_id", "output":
			end := int(dec.InputOffset())
			found[key] = part{value.Clone(), at + end - len(value)}
		}
	}
	_, err := dec.ReadToken()
	return found, err
}

func (p parts) text(name string) string {
	var text string
	if json.Unmarshal(p[name].value, &text) != nil {
		return ""
	}
	return text
}

// result is the one of an object with its id and its content under these names.
func (p parts) result(id, content string) []span {
	value, there := p[content]
	if !there {
		return nil
	}
	return []span{{p.text(id), value.start, value.start + len(value.value)}}
}

// blocks are the results among the blocks of a message of Anthropic.
func (p parts) blocks(name string) (all []span, err error) {
	list := p[name]
	if list.value.Kind() != jsontext.KindBeginArray {
		return nil, nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(list.value), provider.Reading)
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for dec.PeekKind() == jsontext.KindBeginObject {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		block, err := partsOf(value.Clone(), list.start+int(dec.InputOffset())-len(value))
		if err != nil {
			return nil, err
		}
		if block.text("type") == "tool_result" {
			all = append(all, block.result("tool_use_id", "content")...)
		}
	}
	return all, nil
}

// said is what a result says: its text, or, where it has more than a text, its content
// as it stands in the message.
func said(content string) string {
	text, err := jsontext.AppendUnquote(nil, content)
	if err != nil {
		return content
	}
	return string(text)
}
