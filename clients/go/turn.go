package sidecall

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sidecall/sidecall/internal/provider"
)

// Format is the wire format of a provider.
type Format = provider.Format

const (
	// Anthropic is the Messages API.
	Anthropic = provider.Anthropic
	// OpenAI is Chat Completions, OpenAIResponses the Responses API.
	OpenAI          = provider.OpenAI
	OpenAIResponses = provider.OpenAIResponses
)

// ErrNoMessage is wrapped by the error of what is no message of an assistant by a
// provider that is known here. Nothing was sent.
var ErrNoMessage = errors.New("no message of an assistant")

// Turn is what one message of an assistant asks for.
type Turn struct {
	Format Format
	// Calls have their id, their tool and their arguments; the rest is the caller's.
	Calls []Call
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
	Messages []json.RawMessage
}

// Read reads the message of an assistant: the value of a provider's SDK, its JSON
// ([]byte, json.RawMessage or string), or anything that marshals to that. An Anthropic
// message, a Chat Completion (or a choice or message of one) or a Response. Tools that the
// provider has run itself are left alone. The error wraps ErrNoMessage.
func Read(message any) (Turn, error) {
	text, err := jsonOf(message)
	if err != nil {
		return Turn{}, fmt.Errorf("%w: %w", ErrNoMessage, err)
	}
	var m envelope
	if err := json.Unmarshal(text, &m); err != nil {
		return Turn{}, fmt.Errorf("%w: %w", ErrNoMessage, err)
	}
	switch {
	case m.Choices != nil:
		return m.completion()
	case m.Message != nil:
		return m.choice()
	case m.Object == "response" || m.Output != nil:
		return m.response()
	case m.Role != "assistant":
		return Turn{}, fmt.Errorf("%w: its role is %q", ErrNoMessage, m.Role)
	case m.isAnthropic():
		return m.anthropic()
	default:
		return choice{Message: text}.turn()
	}
}

// envelope has the fields by which the formats are told apart.
type envelope struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Object string `json:"object"`
	Role   string `json:"role"`
	Status string `json:"status"`

	StopReason string          `json:"stop_reason"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  json.RawMessage `json:"tool_calls"`

	Choices      []choice        `json:"choices"`
	Message      json.RawMessage `json:"message"`
	FinishReason string          `json:"finish_reason"`

	Output     []json.RawMessage `json:"output"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage usage `json:"usage"`
}

type usage struct {
	Total       int64 `json:"total_tokens"`
	Input       int64 `json:"input_tokens"`
	Output      int64 `json:"output_tokens"`
	CacheWrites int64 `json:"cache_creation_input_tokens"`
	CacheReads  int64 `json:"cache_read_input_tokens"`
}

// jsonOf is a message as the provider sent it.
func jsonOf(message any) ([]byte, error) {
	switch m := message.(type) {
	case nil:
		return nil, errors.New("it is nil")
	case []byte:
		return m, nil
	case json.RawMessage:
		return m, nil
	case string:
		return []byte(m), nil
	case interface{ RawJSON() string }: // of SDKs whose values know what they were read from
		if raw := m.RawJSON(); raw != "" {
			return []byte(raw), nil
		}
	}
	return json.Marshal(message)
}

func (m *envelope) isAnthropic() bool {
	if len(m.ToolCalls) > 0 && string(m.ToolCalls) != "null" {
		return false
	}
	if m.Type == "message" || m.StopReason != "" {
		return true
	}
	var blocks []block
	if json.Unmarshal(m.Content, &blocks) != nil || blocks == nil { // a text, or null
		return false
	}
	for _, b := range blocks {
		if b.Type == "tool_use" || b.Type == "server_tool_use" || strings.Contains(b.Type, "thinking") {
			return true
		}
	}
	return len(blocks) == 0
}

func (m *envelope) anthropic() (Turn, error) {
	turn := Turn{
		Format: Anthropic, ID: m.ID, Reason: m.StopReason,
		Tokens: m.Usage.Input + m.Usage.Output + m.Usage.CacheWrites + m.Usage.CacheReads,
	}
	switch m.StopReason {
	case "max_tokens", "model_context_window_exceeded", "refusal":
		turn.Cut = m.StopReason
	}
	own, err := json.Marshal(map[string]any{"role": "assistant", "content": m.Content})
	if err != nil {
		return Turn{}, fmt.Errorf("%w: %w", ErrNoMessage, err)
	}
	turn.Messages = []json.RawMessage{own}
	if len(m.Content) > 0 && m.Content[0] == '"' {
		return turn, nil
	}
	var blocks []block
	if err := json.Unmarshal(m.Content, &blocks); err != nil {
		return Turn{}, fmt.Errorf("%w: its content: %w", ErrNoMessage, err)
	}
	for _, b := range blocks {
		if b.Type == "tool_use" {
			turn.Calls = append(turn.Calls, Call{ID: b.ID, Tool: b.Name, Arguments: written(b.Input)})
		}
	}
	return turn, nil
}

// block is one of the content of an Anthropic message.
type block struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// written are arguments as the model wrote them: a text in JSON is that text.
func written(arguments json.RawMessage) string {
	var text string
	if json.Unmarshal(arguments, &text) == nil {
		return text // null is the empty one
	}
	return string(arguments)
}

// choice is one of a Chat Completion.
type choice struct {
	Message      json.RawMessage `json:"message"`
	FinishReason string          `json:"finish_reason"`
}

func (m *envelope) completion() (Turn, error) {
	if len(m.Choices) == 0 {
		return Turn{}, fmt.Errorf("%w: a completion without a choice", ErrNoMessage)
	}
	turn, err := m.Choices[0].turn()
	turn.ID, turn.Tokens = m.ID, m.Usage.Total
	return turn, err
}

func (m *envelope) choice() (Turn, error) {
	return choice{Message: m.Message, FinishReason: m.FinishReason}.turn()
}

func (c choice) turn() (Turn, error) {
	var m struct {
		Role      string `json:"role"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function *struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(c.Message, &m); err != nil {
		return Turn{}, fmt.Errorf("%w: %w", ErrNoMessage, err)
	}
	if m.Role != "assistant" {
		return Turn{}, fmt.Errorf("%w: its role is %q", ErrNoMessage, m.Role)
	}
	turn := Turn{Format: OpenAI, Reason: c.FinishReason, Messages: []json.RawMessage{c.Message}}
	if c.FinishReason == "length" || c.FinishReason == "content_filter" {
		turn.Cut = c.FinishReason
	}
	for _, call := range m.ToolCalls {
		if call.Function == nil {
			return Turn{}, noFunction(call.Type)
		}
		turn.Calls = append(turn.Calls, Call{ID: call.ID, Tool: call.Function.Name, Arguments: written(call.Function.Arguments)})
	}
	return turn, nil
}

func noFunction(kind string) error {
	return fmt.Errorf("%w: it has a call of type %q, which is for the program to run", ErrNoMessage, kind)
}

func (m *envelope) response() (Turn, error) {
	turn := Turn{Format: OpenAIResponses, ID: m.ID, Tokens: m.Usage.Total, Messages: m.Output}
	if m.Status == "incomplete" {
		turn.Cut = cmp.Or(m.Incomplete.Reason, "incomplete")
	}
	for _, raw := range m.Output {
		var item struct {
			Type      string          `json:"type"`
			Name      string          `json:"name"`
			Status    string          `json:"status"`
			CallID    string          `json:"call_id"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(raw, &item); err != nil {
			return Turn{}, fmt.Errorf("%w: an item of its output: %w", ErrNoMessage, err)
		}
		switch item.Type {
		case "custom_tool_call":
			return Turn{}, noFunction(item.Type)
		case "function_call":
			if item.Status == "incomplete" {
				turn.Cut = cmp.Or(turn.Cut, "incomplete")
			}
			turn.Calls = append(turn.Calls, Call{ID: item.CallID, Tool: item.Name, Arguments: written(item.Arguments)})
		}
	}
	turn.Reason = cmp.Or(turn.Cut, m.Status)
	return turn, nil
}
