package timeline_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/timeline"
	"github.com/sidecall/sidecall/internal/tool"
)

// talk is a conversation in the making, as the Messages API has it.
type talk struct {
	messages []timeline.Message
	turn     int
}

func (k *talk) raw(format string, args ...any) *talk {
	k.messages = append(k.messages, timeline.Message{JSON: fmt.Sprintf(format, args...), Turn: fmt.Sprint("t", k.turn)})
	return k
}

func (k *talk) user(text string) *talk { return k.raw(`{"role":"user","content":%s}`, quoted(text)) }

func (k *talk) model(text string) *talk {
	return k.raw(`{"role":"assistant","content":[{"type":"text","text":%s}]}`, quoted(text))
}

// call is a turn with one call, which is answered.
func (k *talk) call(id, name, args, answer string, isError bool) *talk {
	return k.asks(id, name, args).answers(id, answer, isError)
}

func (k *talk) asks(id, name, args string) *talk {
	k.turn++
	return k.raw(`{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}]}`, id, name, args)
}

func (k *talk) answers(id, answer string, isError bool) *talk {
	return k.raw(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%s,"is_error":%v}]}`, id, quoted(answer), isError)
}

func (k *talk) built(records ...timeline.Record) *timeline.Timeline {
	return timeline.Build(timeline.Input{Provider: provider.Anthropic, Messages: slices.Values(k.messages), Records: records})
}

func quoted(text string) string {
	encoded, _ := json.Marshal(text) // a text always can be
	return string(encoded)
}

// rendered is an error as the sidecar tells it.
func rendered(code tool.Code, field, constraint, received, hint string) string {
	return tool.RenderError(tool.Error{Code: code, Field: field, Constraint: constraint, Received: received, Hint: hint}, nil)
}

// invalid is an error that tells all that a model needs.
func invalid(received string) string {
	return rendered(tool.CodeInvalidArgs, "order_id", `pattern: "^A-[0-9]+$"`, received, "Send the id as it stands in the order, e.g. A-77.")
}

// called is the call under an id.
func called(t *testing.T, line *timeline.Timeline, id string) *timeline.Call {
	t.Helper()
	for e := range line.Calls {
		if e.Call.ID == id {
			return e.Call
		}
	}
	t.Fatalf("there is no call %s", id)
	return nil
}

// first is the id of the call with the first error that was not recovered from.
func first(line *timeline.Timeline) string {
	if line.First < 0 {
		return ""
	}
	return line.Events[line.First].Call.ID
}

// outline is a timeline in a line per event.
func outline(line *timeline.Timeline) string {
	var b strings.Builder
	for _, e := range line.Events {
		fmt.Fprintf(&b, "%d ", e.Prompt)
		switch {
		case e.Kind == timeline.UserSaid:
			fmt.Fprintf(&b, "user %s\n", e.Text)
		case e.Kind == timeline.ModelSaid:
			fmt.Fprintf(&b, "model %s\n", e.Text)
		case e.Call == nil:
			b.WriteString("unread\n")
		default:
			fmt.Fprintf(&b, "%s %s(%s) %s\n", e.Call.ID, e.Call.Tool, e.Call.Arguments, e.Call.Text)
		}
	}
	return b.String()
}

// started is when a call of a recorded run was claimed.
func started(prompt, call int) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(prompt)*time.Hour + time.Duration(call)*time.Second)
}
