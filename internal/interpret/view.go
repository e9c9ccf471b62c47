package interpret

import (
	"context"

	"cel.dev/cel-go/interpreter"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/pattern"
	"github.com/sidecall/sidecall/internal/tool"
)

// view is one reply as the expressions see it: a CEL activation that parses
// only what is asked for, and that once. It serves one goroutine.
type view struct {
	reply     *tool.Reply
	failure   *tool.Failure
	args      map[string]any
	selection *selection

	body, result         any
	bodyRead, resultRead bool
	nativeArgs           map[string]any
	text                 string
	textRead             bool
	meter                *pattern.Meter // made when the first pattern is matched

	// item and index are those of a partial reply.
	item  any
	index int
}

var _ interpreter.Activation = (*view)(nil)

// Parent implements interpreter.Activation.
func (v *view) Parent() interpreter.Activation { return nil }

// ResolveName implements interpreter.Activation.
func (v *view) ResolveName(name string) (any, bool) {
	switch name {
	case "status", "exit_code":
		return int64(v.reply.Status), true
	case "headers":
		if v.reply.Header == nil {
			return map[string]string{}, true
		}
		return v.reply.Header, true
	case "body":
		return v.parsed(), true
	case "result":
		return v.selected(), true
	case "text":
		if !v.textRead {
			v.textRead, v.text = true, string(v.reply.Text)
		}
		return v.text, true
	case "is_error":
		return v.failure != nil, true
	case "args":
		if v.nativeArgs == nil {
			v.nativeArgs, _ = native(v.args).(map[string]any)
		}
		return v.nativeArgs, true
	case "item":
		return v.item, true
	case "index":
		return int64(v.index), true
	case meterName:
		// What a reply means does not depend on how long its caller waits.
		if v.meter == nil {
			v.meter = pattern.NewMeter(context.Background(), maxSteps)
		}
		return v.meter, true
	default:
		return nil, false
	}
}

// parsed is the reply as JSON; nil when it is not.
func (v *view) parsed() any {
	if !v.bodyRead {
		v.bodyRead = true
		if text := jsonOf(v.reply); text != nil {
			v.body, _ = parse(text) // nil is what body is when it is not JSON
		}
	}
	return v.body
}

// selected is the result that the reply holds; nil when it does not.
func (v *view) selected() any {
	if v.selection == nil {
		return v.parsed()
	}
	if !v.resultRead {
		v.resultRead = true
		v.result, _ = v.selection.value(v) // nil likewise
	}
	return v.result
}

// message is what the reply says, for a failure that the mapping found.
func (v *view) message() string {
	return tool.ShortenBytes(backend.Message(v.reply), backend.MaxMessage)
}

// jsonOf is the JSON text of a reply; nil when it has none. Standard output of
// a command is not declared as anything, so what looks like JSON is tried.
func jsonOf(reply *tool.Reply) []byte {
	switch {
	case reply.Structured != nil:
		return reply.Structured
	case reply.Cut:
		return nil
	case isJSON(reply):
		return reply.Text
	default:
		return nil
	}
}
