package conversation

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// maxOpen bounds the calls that may be open: more than any model makes in a turn.
	maxOpen = 1024
	// maxNameBytes bounds the name of a tool that is called: twice what a provider
	// takes. It stands in what is told of the call.
	maxNameBytes = 256
)

// reading is how messages are read: names are what they are byte for byte, and stand
// once, or a provider might find a call where there is none here. What they have beside
// ids may be no text: it is the model's, and is not looked at.
var reading = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.MatchCaseInsensitiveNames(false))

// tracker follows a conversation message by message, as far as its calls go: which of
// them are open. It refuses what the provider would refuse, as that would refuse it for
// good, in every request to come.
type tracker struct {
	format provider.Format
	open   []Call
	// called: a message had a call.
	called bool
	// answers are the calls that the last message has answered.
	answers []Call
	// at and turn are those of the message that is read, field is its name.
	at    int64
	turn  string
	field string
}

// read reads one more message.
func (t *tracker) read(raw string) error {
	t.answers = nil
	if text := strings.TrimLeft(raw, " \t\r\n"); !strings.HasPrefix(text, "{") {
		return invalid(t.field, "is no JSON object")
	}
	m, err := readEntry(raw)
	if err != nil {
		return invalid(t.field, "cannot be read: %v", err)
	}
	switch t.format {
	case provider.Anthropic:
		return t.anthropic(m)
	case provider.OpenAI:
		return t.completions(m)
	case provider.OpenAIResponses:
		return t.responses(m)
	}
	return invalid("provider", "there is none called %s", tool.Quote(string(t.format)))
}

// entry has the fields by which calls and results are known.
type entry struct {
	Type       string         `json:"type"`
	Role       string         `json:"role"`
	Content    jsontext.Value `json:"content"`
	ToolCalls  jsontext.Value `json:"tool_calls"`
	ToolCallID string         `json:"tool_call_id"`
	function   `json:",inline"`

	CallID string `json:"call_id"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Function function `json:"function"`
	Custom   function `json:"custom"`
}

// called is the function, or the custom tool.
func (c *toolCall) called() *function {
	if c.Function.Name == "" {
		return &c.Custom
	}
	return &c.Function
}

// function is what is called, and with what: a function with arguments, which are a
// JSON text, or a custom tool with an input.
type function struct {
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Input     jsontext.Value `json:"input"`
}

type block struct {
	function `json:",inline"`

	Type      string `json:"type"`
	ID        string `json:"id"`
	ToolUseID string `json:"tool_use_id"`
}

func readEntry(raw string) (*entry, error) {
	var m entry
	err := json.Unmarshal([]byte(raw), &m, reading)
	return &m, err
}

// each reads the entries of a list one by one, up to the first error: as values all of
// them would take a hundred times as much as their text. What is no list has none.
func each[T any](list jsontext.Value, field string, visit func(i int, one *T) error) error {
	if list.Kind() != '[' {
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(list), reading)
	if _, err := dec.ReadToken(); err != nil {
		return invalid(field, "cannot be read: %v", err)
	}
	one := new(T)
	for i := 0; dec.PeekKind() != ']'; i++ {
		*one = *new(T)
		if err := json.UnmarshalDecode(dec, one); err != nil {
			return invalid(field, "cannot be read: %v", err)
		}
		if err := visit(i, one); err != nil {
			return err
		}
	}
	return nil
}

// anthropic reads a message of the Messages API: an assistant's, or a user's, which
// begins with the results of all calls that are open.
func (t *tracker) anthropic(m *entry) error {
	switch m.Role {
	case "assistant":
		if err := t.nothingOpen(); err != nil {
			return err
		}
		return each(m.Content, t.field+".content", func(_ int, b *block) error {
			if b.Type != "tool_use" {
				return nil
			}
			return t.call(b.ID, b.Name)
		})
	case "user":
		return t.anthropicUser(m)
	}
	return invalid(t.field+".role", "is %s: expected user or assistant", tool.Quote(m.Role))
}

func (t *tracker) anthropicUser(m *entry) error {
	results := 0
	err := each(m.Content, t.field+".content", func(i int, b *block) error {
		if b.Type != "tool_result" {
			return nil
		}
		if i != results {
			return invalid(t.field+".content", "has a tool_result after something else: the results come first")
		}
		results++
		return t.answered(b.ToolUseID, "tool_use_id")
	})
	if err != nil {
		return err
	}
	return t.nothingOpen()
}

// completions reads a message of Chat Completions.
func (t *tracker) completions(m *entry) error {
	if m.Role == "tool" {
		return t.answered(m.ToolCallID, "tool_call_id")
	}
	if m.Role == "" {
		return invalid(t.field+".role", "is missing")
	}
	if err := t.nothingOpen(); err != nil {
		return err
	}
	if m.Role != "assistant" {
		return nil
	}
	if kind := m.ToolCalls.Kind(); kind != '[' && kind != 'n' && len(m.ToolCalls) > 0 {
		return invalid(t.field+".tool_calls", "is no list")
	}
	return each(m.ToolCalls, t.field+".tool_calls", func(_ int, c *toolCall) error { return t.call(c.ID, c.called().Name) })
}

// responses reads an item of the Responses API. Those of one response come one by one,
// so that one of the model may follow a call.
func (t *tracker) responses(m *entry) error {
	switch m.Type {
	case "function_call", "custom_tool_call":
		return t.call(m.CallID, m.Name)
	case "function_call_output", "custom_tool_call_output":
		return t.answered(m.CallID, "call_id")
	}
	if m.Type == "" && m.Role == "" {
		return invalid(t.field+".type", "is missing")
	}
	if m.Role != "" && m.Role != "assistant" {
		return t.nothingOpen()
	}
	return nil
}

// noText: no provider's id has a control character, and a lone surrogate is read as the
// replacement for all of them.
func noText(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) }

// call notes a call of the model.
func (t *tracker) call(id, name string) error {
	switch {
	case id == "":
		return invalid(t.field, "has a call without an id")
	case len(id) > maxIDBytes:
		return invalid(t.field, "has a call with an id of %d bytes: at most %d", len(id), maxIDBytes)
	case strings.ContainsFunc(id, noText):
		return invalid(t.field, "has a call with an id that is no text")
	case len(name) > maxNameBytes:
		return invalid(t.field, "has a call of a tool with a name of %d bytes: at most %d", len(name), maxNameBytes)
	case slices.ContainsFunc(t.open, func(c Call) bool { return c.ID == id }):
		return invalid(t.field, "has two calls with the id %s", tool.Quote(id))
	case len(t.open) == maxOpen:
		return invalid(t.field, "has more than %d calls", maxOpen)
	}
	t.called = true
	t.open = append(t.open, Call{ID: id, Turn: t.turn, Tool: name, At: t.at})
	return nil
}

// answered notes a result.
func (t *tracker) answered(id, field string) error {
	i := slices.IndexFunc(t.open, func(c Call) bool { return c.ID == id })
	if i < 0 {
		return invalid(t.field, "answers the %s %s, which is not open: it is none of the calls before it, or is answered already", field, tool.Quote(id))
	}
	t.answers = append(t.answers, t.open[i])
	t.open = slices.Delete(slices.Clone(t.open), i, i+1)
	return nil
}

// nothingOpen refuses a message as long as calls before it have no result.
func (t *tracker) nothingOpen() error {
	if len(t.open) == 0 {
		return nil
	}
	return invalid(t.field, "the call %s before it has no result, and %d calls in all: append their results first; ResumeConversation has what answers them",
		tool.Quote(t.open[0].ID), len(t.open))
}
