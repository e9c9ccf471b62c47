package provider

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxCalls bounds the calls of a message: more than any model makes in a turn.
const MaxCalls = 1024

// MaxItems bounds the items of a response, each of which is a message to append.
const MaxItems = 4096

// Turn is what one message of an assistant asks for.
type Turn struct {
	Format Format
	Calls  []Made
	// ID is the provider's, of the message or response; empty when it has none.
	ID string
	// Cut is why the message ends before its end, in the provider's word, so that its
	// calls may be incomplete; empty when it is whole.
	Cut string
	// Reason is why it ends, in the provider's word; empty when that is not said.
	Reason string
	// Tokens of the request and the message; 0 when that is not said.
	Tokens int64
	// Messages are what is to be appended for the message itself.
	Messages []string
}

// Made is a call of a turn.
type Made struct{ ID, Tool, Arguments string }

// Read reads the message of an assistant, as its provider sent it: an Anthropic message, a
// Chat Completion (or a choice or message of one) or a Response. Tools that the provider
// has run itself are left alone.
func Read(message string) (*Turn, error) {
	m := &envelope{text: strings.TrimSpace(message)}
	if !strings.HasPrefix(m.text, "{") {
		return nil, errors.New("want the message of an assistant, which is a JSON object")
	}
	if err := jsonv2.Unmarshal([]byte(m.text), m, lenient); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", ofJSON(err))
	}
	switch {
	case isThere(m.Choices):
		return m.completion()
	case isThere(m.Message) && len(m.FinishReason.raw) > 0:
		return m.choice(m.Message, m.FinishReason.is)
	case m.Object.is == "response" || m.Output.Kind() == jsontext.KindBeginArray:
		return m.response()
	case m.Role.is != assistant:
		return nil, notAssistant(m.Role)
	case m.isAnthropic():
		return m.anthropic()
	}
	return m.choice(jsontext.Value(m.text), "")
}

// ExitReason is why a loop ends with the message, when it calls nothing.
func (t *Turn) ExitReason() string {
	switch t.Reason {
	case "max_tokens", "length", "max_output_tokens", "model_context_window_exceeded":
		return "max_tokens"
	case "refusal", "content_filter":
		return "refusal"
	}
	return "end_turn"
}

const assistant = "assistant"

// envelope has the fields by which the formats are told apart.
type envelope struct {
	text string

	ID     loose[string] `json:"id"`
	Type   loose[string] `json:"type"`
	Object loose[string] `json:"object"`
	Role   loose[string] `json:"role"`
	Status loose[string] `json:"status"`

	StopReason loose[string]  `json:"stop_reason"`
	Content    jsontext.Value `json:"content"`
	ToolCalls  jsontext.Value `json:"tool_calls"`

	Choices      jsontext.Value `json:"choices"`
	Message      jsontext.Value `json:"message"`
	FinishReason loose[string]  `json:"finish_reason"`

	Output     jsontext.Value `json:"output"`
	Incomplete loose[struct {
		Reason loose[string] `json:"reason"`
	}] `json:"incomplete_details"`
	Usage loose[usage] `json:"usage"`
}

// usage is what a provider says of tokens.
type usage struct {
	Total       loose[int64] `json:"total_tokens"`
	Input       loose[int64] `json:"input_tokens"`
	Output      loose[int64] `json:"output_tokens"`
	CacheWrites loose[int64] `json:"cache_creation_input_tokens"`
	CacheReads  loose[int64] `json:"cache_read_input_tokens"`
}

func isThere(value jsontext.Value) bool { return len(value) > 0 && value.Kind() != jsontext.KindNull }

func notAssistant(role loose[string]) error {
	if !isThere(role.raw) {
		return errors.New("want the message of an assistant, got what has no role")
	}
	return fmt.Errorf("want the message of an assistant, got one of role %s", role.raw)
}

// isAnthropic: where the envelope does not say it, a block does that nobody else has.
func (m *envelope) isAnthropic() bool {
	switch {
	case isThere(m.ToolCalls):
		return false
	case m.Type.is == "message" || isThere(m.StopReason.raw):
		return true
	case m.Content.Kind() != jsontext.KindBeginArray:
		return false
	}
	known, blocks := false, 0
	// What is no block is passed over here: whoever reads the calls refuses it.
	err := Each(m.Content, "content", func(_ int, b *loose[struct {
		Type loose[string] `json:"type"`
	}]) error {
		blocks++
		known = known || ofAnthropic(b.is.Type.is)
		return nil
	})
	return err == nil && (known || blocks == 0)
}

func ofAnthropic(kind string) bool {
	switch kind {
	case "tool_use", "thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result", "mcp_tool_use":
		return true
	}
	return false
}

func (m *envelope) anthropic() (*Turn, error) {
	if kind := m.Content.Kind(); isThere(m.Content) && kind != jsontext.KindString && kind != jsontext.KindBeginArray {
		return nil, errors.New("want a list in content")
	}
	turn := &Turn{Format: Anthropic, ID: m.ID.is, Reason: m.StopReason.is, Tokens: m.Usage.is.anthropic()}
	switch turn.Reason {
	case "max_tokens", "model_context_window_exceeded", "refusal":
		turn.Cut = turn.Reason
	}
	content := string(m.Content)
	turn.Messages = []string{`{"role":"assistant","content":` + cmp.Or(content, "null") + `}`}
	return turn, turn.take(&Entry{Content: m.Content})
}

func (u *usage) anthropic() (tokens int64) {
	for _, some := range []loose[int64]{u.Input, u.Output, u.CacheWrites, u.CacheReads} {
		tokens += min(max(some.is, 0), math.MaxInt64-tokens)
	}
	return tokens
}

func (m *envelope) completion() (*Turn, error) {
	var first *envelope
	if m.Choices.Kind() != jsontext.KindBeginArray {
		return nil, errors.New("want a list in choices")
	}
	err := Each(m.Choices, "choices", func(i int, c *envelope) error {
		if i == 0 {
			kept := *c
			first = &kept
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case first == nil:
		return nil, errors.New("want a completion with a choice, got none")
	}
	turn, err := m.choice(first.Message, first.FinishReason.is)
	if err != nil {
		return nil, err
	}
	turn.ID, turn.Tokens = m.ID.is, max(m.Usage.is.Total.is, 0)
	return turn, nil
}

func (m *envelope) choice(message jsontext.Value, reason string) (*Turn, error) {
	if message.Kind() != jsontext.KindBeginObject {
		return nil, errors.New("want the message of an assistant, got what is no object")
	}
	var own struct {
		Role      loose[string]  `json:"role"`
		ToolCalls jsontext.Value `json:"tool_calls"`
		// Function is a call of before there were tools, which has no id.
		Function jsontext.Value `json:"function_call"`
	}
	if err := jsonv2.Unmarshal(message, &own, lenient); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", ofJSON(err))
	}
	if own.Role.is != assistant {
		return nil, notAssistant(own.Role)
	}
	if isThere(own.ToolCalls) && own.ToolCalls.Kind() != jsontext.KindBeginArray {
		return nil, errors.New("want a list in tool_calls")
	}
	if isThere(own.Function) {
		return nil, errors.New("want calls in tool_calls, got a function_call, which has no id")
	}
	turn := &Turn{Format: OpenAI, Reason: reason, Messages: []string{string(message)}}
	if reason == "length" || reason == "content_filter" {
		turn.Cut = reason
	}
	return turn, turn.take(&Entry{ToolCalls: own.ToolCalls})
}

func (m *envelope) response() (*Turn, error) {
	if isThere(m.Output) && m.Output.Kind() != jsontext.KindBeginArray {
		return nil, errors.New("want a list in output")
	}
	turn := &Turn{Format: OpenAIResponses, ID: m.ID.is, Tokens: max(m.Usage.is.Total.is, 0)}
	if !completed(m.Status.is) {
		turn.Cut = word(cmp.Or(m.Incomplete.is.Reason.is, m.Status.is))
	}
	err := Each(m.Output, "output", func(i int, raw *jsontext.Value) error {
		item, err := readEntry(*raw, lenient)
		if err != nil {
			return &Unreadable{fmt.Sprintf("output[%d]", i), err}
		}
		if state := unquoted(item.Status); item.Type == "function_call" && isThere(item.Status) && !completed(state) {
			turn.Cut = cmp.Or(turn.Cut, word(state))
		}
		if len(turn.Messages) == MaxItems {
			return fmt.Errorf("has more than %d items", MaxItems)
		}
		turn.Messages = append(turn.Messages, string(*raw))
		return turn.take(item)
	})
	turn.Reason = cmp.Or(turn.Cut, m.Status.is)
	return turn, err
}

// completed reports that what has this status is whole, as what has none.
func completed(status string) bool { return status == "completed" || status == "" }

// word is a provider's word, which is told of each call: one that is none is not.
func word(said string) string {
	if len(said) > 64 {
		return "incomplete"
	}
	return said
}

// take takes in the calls of an entry.
func (t *Turn) take(m *Entry) error {
	return m.Calls(t.Format, func(c *Call) error {
		switch {
		case c.Custom == "shell_call" && m.Environment.is.Type.is == "container_reference": // which the provider has run
			return nil
		case c.Custom != "":
			return fmt.Errorf("want calls of functions, got one of type %q, which is for the program to run", c.Custom)
		case len(t.Calls) == MaxCalls:
			return fmt.Errorf("has more than %d calls", MaxCalls)
		case c.Unanswerable() != "":
			return errors.New("has " + c.Unanswerable())
		case slices.ContainsFunc(t.Calls, func(other Made) bool { return other.ID == c.ID }):
			return fmt.Errorf("has two calls with the id %q", c.ID)
		}
		t.Calls = append(t.Calls, Made{c.ID, c.Name, c.Arguments()})
		return nil
	})
}
