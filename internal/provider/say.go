package provider

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Said is one thing that an entry of a conversation says: a text, a call, or what came of
// a call.
type Said struct {
	Text   string
	Call   *Call
	Result *Result
}

// Result is what a model was told of a call.
type Result struct {
	ID string
	// Text is all of the text in it; a content without any is the JSON that it is.
	Text string
	// IsError is what the entry says of it: only Anthropic's say so.
	IsError bool
}

// block is a part of a content, in any of the formats.
type block struct {
	function `json:",inline"`

	Type      loose[string]  `json:"type"`
	ID        loose[string]  `json:"id"`
	ToolUseID loose[string]  `json:"tool_use_id"`
	Text      loose[string]  `json:"text"`
	Content   jsontext.Value `json:"content"`
	IsError   loose[bool]    `json:"is_error"`
}

// FromModel reports that the entry is the model's.
func (m *Entry) FromModel(of Format) bool {
	if of == OpenAIResponses && m.Role == "" {
		return !strings.HasSuffix(m.Type, "_output")
	}
	return m.Role == assistant
}

// FromUser reports that the entry is the user's, or tells results.
func (m *Entry) FromUser() bool { return m.Role == "user" }

// Says visits what an entry says, in its order, up to the first error. Thinking is left
// out. That of what cannot be read is an *Unreadable.
func (m *Entry) Says(of Format, visit func(Said) error) error {
	answered, id := m.Answers()
	switch {
	case of == OpenAI && m.Role == "tool":
		return visit(Said{Result: &Result{ID: m.ToolCallID, Text: textOf(m.Content)}})
	case of == OpenAIResponses && answered != "":
		return visit(Said{Result: &Result{ID: id, Text: textOf(m.Output)}})
	}
	if err := m.content(of, visit); err != nil || of == Anthropic {
		return err
	}
	return m.Calls(of, func(c *Call) error { return visit(Said{Call: c}) })
}

// content visits what the content of an entry says.
func (m *Entry) content(of Format, visit func(Said) error) error {
	if m.Content.Kind() == jsontext.KindString {
		return visit(Said{Text: unquoted(m.Content)})
	}
	return Each(m.Content, "content", func(_ int, b *block) error {
		switch kind := b.Type.is; {
		case of == Anthropic && kind == "tool_use":
			return visit(Said{Call: b.call(b.ID.is, "")})
		case of == Anthropic && kind == "tool_result":
			return visit(Said{Result: &Result{ID: b.ToolUseID.is, Text: textOf(b.Content), IsError: b.IsError.is}})
		case b.Text.is != "":
			return visit(Said{Text: unquoted(b.Text.raw)})
		}
		return nil
	})
}

// textOf is the text of a content: its own, or that of its blocks, one after the other.
func textOf(content jsontext.Value) string {
	switch content.Kind() {
	case jsontext.KindString:
		return unquoted(content)
	case jsontext.KindBeginArray:
	default:
		return string(content)
	}
	var texts []string
	err := Each(content, "content", func(_ int, b *block) error {
		if b.Text.is != "" {
			texts = append(texts, unquoted(b.Text.raw))
		}
		return nil
	})
	if err != nil || len(texts) == 0 {
		return string(content)
	}
	return strings.Join(texts, "\n\n")
}
