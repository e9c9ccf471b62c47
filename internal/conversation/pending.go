package conversation

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
)

// Asked is a call as the model made it.
type Asked struct {
	Call

	// Arguments are the model's, untouched.
	Arguments string
}

// Pending returns the open calls of a conversation, in their order.
func (b *Book) Pending(ctx context.Context, key Key, head *Head) ([]Asked, error) {
	all := make([]Asked, 0, len(head.Open))
	var page []Message
	from, at := int64(0), int64(-1)
	var calls map[string]function // those of the message at
	for _, call := range head.Open {
		if call.At < from || call.At >= from+int64(len(page)) {
			var err error
			if _, page, err = b.Load(ctx, key, call.At, MaxMessageBytes); err != nil {
				return nil, err
			}
			from = call.At
		}
		if call.At != at {
			var err error
			if calls, err = callsIn(head.Provider, page[call.At-from].JSON); err != nil {
				return nil, fmt.Errorf("%w: message %d: %w", ErrCorrupt, call.At, err)
			}
			at = call.At
		}
		f, found := calls[call.ID]
		if !found {
			return nil, fmt.Errorf("%w: message %d has no call %s", ErrCorrupt, call.At, tool.Quote(call.ID))
		}
		all = append(all, Asked{Call: call, Arguments: f.text()})
	}
	return all, nil
}

// callsIn are the calls of a message by their ids.
func callsIn(format provider.Format, raw string) (map[string]function, error) {
	m, err := readEntry(raw)
	if err != nil {
		return nil, err
	}
	calls := map[string]function{}
	switch format {
	case provider.Anthropic:
		err = each(m.Content, "content", func(_ int, b *block) error {
			if b.Type == "tool_use" {
				calls[b.ID] = b.function
			}
			return nil
		})
	case provider.OpenAI:
		err = each(m.ToolCalls, "tool_calls", func(_ int, c *toolCall) error {
			calls[c.ID] = *c.called()
			return nil
		})
	case provider.OpenAIResponses:
		calls[m.CallID] = m.function
	}
	return calls, err
}

// text are the arguments as the model wrote them: a text in JSON is that text, as in
// what a client sends.
func (f *function) text() string {
	raw := f.Arguments
	if len(raw) == 0 {
		raw = f.Input
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text // null is the empty one
	}
	return string(raw)
}
