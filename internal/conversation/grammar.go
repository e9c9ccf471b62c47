package conversation

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
)

// maxNameBytes bounds the name of a tool that is called: twice what a provider takes. It
// stands in what is told of the call.
const maxNameBytes = 256

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
	m, err := provider.ReadEntry(raw)
	if err != nil {
		return invalid(t.field, "cannot be read: %v", err)
	}
	err = t.entry(m)
	if list, ok := errors.AsType[*provider.Unreadable](err); ok {
		return invalid(t.field+"."+list.Field, "cannot be read: %v", list.Err)
	}
	return err
}

func (t *tracker) entry(m *provider.Entry) error {
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

// anthropic reads a message of the Messages API: an assistant's, or a user's, which
// begins with the results of all calls that are open.
func (t *tracker) anthropic(m *provider.Entry) error {
	switch m.Role {
	case "assistant":
		if err := t.nothingOpen(); err != nil {
			return err
		}
		return m.Calls(t.format, t.call)
	case "user":
		return t.anthropicUser(m)
	}
	return invalid(t.field+".role", "is %s: expected user or assistant", tool.Quote(m.Role))
}

func (t *tracker) anthropicUser(m *provider.Entry) error {
	results := 0
	err := provider.Each(m.Content, "content", func(i int, b *provider.Block) error {
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
func (t *tracker) completions(m *provider.Entry) error {
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
	return m.Calls(t.format, t.call)
}

// responses reads an item of the Responses API. Those of one response come one by one,
// so that one of the model may follow a call.
func (t *tracker) responses(m *provider.Entry) error {
	if kind, id := m.Answers(); kind != "" {
		if i := t.index(id); i >= 0 && t.open[i].Kind != "" && t.open[i].Kind != kind {
			return invalid(t.field+".type", "answers the call_id %s, which is a %s: expected a %s", tool.Quote(id), t.open[i].Kind, provider.AnswerTo(t.open[i].Kind))
		}
		return t.answered(id, "call_id")
	}
	open := len(t.open)
	if err := m.Calls(t.format, t.call); err != nil || len(t.open) > open {
		return err
	}
	if m.Type == "" && m.Role == "" {
		return invalid(t.field+".type", "is missing")
	}
	if m.Role != "" && m.Role != "assistant" {
		return t.nothingOpen()
	}
	return nil
}

// call notes a call of the model.
func (t *tracker) call(c *provider.Call) error {
	id, name, why := c.ID, c.Name, c.Unanswerable()
	switch {
	case why != "":
		return invalid(t.field, "has %s", why)
	case len(name) > maxNameBytes:
		return invalid(t.field, "has a call of a tool with a name of %d bytes: at most %d", len(name), maxNameBytes)
	case t.index(id) >= 0:
		return invalid(t.field, "has two calls with the id %s", tool.Quote(id))
	case len(t.open) == provider.MaxCalls:
		return invalid(t.field, "has more than %d calls", provider.MaxCalls)
	}
	t.called = true
	made := Call{ID: id, Turn: t.turn, Tool: name, At: t.at}
	if t.format == provider.OpenAIResponses {
		made.Kind = cmp.Or(c.Custom, "function_call")
	}
	t.open = append(t.open, made)
	return nil
}

// index is where a call is among those that are open; -1 where it is not.
func (t *tracker) index(id string) int {
	return slices.IndexFunc(t.open, func(c Call) bool { return c.ID == id })
}

// answered notes a result.
func (t *tracker) answered(id, field string) error {
	i := t.index(id)
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
