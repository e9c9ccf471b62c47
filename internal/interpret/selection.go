package interpret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types/ref"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// selection picks the result out of a JSON reply: by pointer, which copies the
// upstream's own text, or by expression.
type selection struct {
	text    string
	steps   []string    // of a pointer
	program *expression // nil for a pointer
}

var (
	errNotJSON = errors.New("it is not JSON")
	errAbsent  = errors.New("it is not there")
)

// parsePointer splits a JSON pointer (RFC 6901).
func parsePointer(text string) ([]string, error) {
	steps := strings.Split(text[1:], "/")
	for i, step := range steps {
		for j := range len(step) {
			if step[j] == '~' && (j+1 == len(step) || step[j+1] != '0' && step[j+1] != '1') {
				return nil, fmt.Errorf("%q is not a JSON pointer: after ~ want 0 or 1", text)
			}
		}
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	return steps, nil
}

// apply puts the result in the place of the reply's text. A reply that lacks
// it is not what the tool promises.
func (s *selection) apply(v *view, reply *tool.Reply) *tool.Failure {
	result, err := s.json(v)
	if err != nil {
		return badOutput(fmt.Sprintf("the answer has no %s: %v", s.text, err), v.reply, err)
	}
	if reply.Structured != nil {
		reply.Structured = result
	}
	reply.Text, reply.JSON = result, true
	if result[0] == '"' {
		// A text is shown as such.
		if text, err := jsontext.AppendUnquote(nil, result); err == nil {
			reply.Text, reply.JSON = text, false
		}
	}
	reply.Size = int64(len(reply.Text))
	return nil
}

// json is the result as JSON text.
func (s *selection) json(v *view) (json.RawMessage, error) {
	text := jsonOf(v.reply)
	if text == nil {
		return nil, errNotJSON
	}
	if s.program == nil {
		return locate(text, s.steps)
	}
	value, err := s.evaluate(v)
	if err != nil {
		return nil, err
	}
	return encode(plainValue(value))
}

// value is the result as CEL sees it.
func (s *selection) value(v *view) (any, error) {
	if s.program != nil {
		return s.evaluate(v)
	}
	return step(v.parsed(), s.steps)
}

// evaluate evaluates the expression. Inside it result means body: what it
// selects is not there yet.
func (s *selection) evaluate(v *view) (ref.Val, error) {
	inner := *v
	inner.selection = nil
	inner.body, inner.bodyRead = v.parsed(), true
	return s.program.value(&inner)
}

// step follows a pointer through decoded JSON.
func step(value any, steps []string) (any, error) {
	for _, name := range steps {
		switch v := value.(type) {
		case map[string]any:
			member, present := v[name]
			if !present {
				return nil, errAbsent
			}
			value = member
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil, errAbsent
			}
			value = v[i]
		default:
			return nil, errAbsent
		}
	}
	return value, nil
}

// locate follows a pointer through JSON text and returns the text it points to.
func locate(text []byte, steps []string) (json.RawMessage, error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text), backend.LooseJSON...)
	for _, name := range steps {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, errNotJSON
		}
		switch token.Kind() {
		case '{':
			err = enterMember(decoder, name)
		case '[':
			err = enterItem(decoder, name)
		default:
			err = errAbsent
		}
		if err != nil {
			return nil, err
		}
	}
	value, err := decoder.ReadValue()
	if err != nil {
		return nil, errNotJSON
	}
	return json.RawMessage(bytes.TrimSpace(value)), nil
}

func enterMember(decoder *jsontext.Decoder, name string) error {
	for decoder.PeekKind() == '"' {
		token, err := decoder.ReadToken()
		if err != nil {
			return errNotJSON
		}
		if token.String() == name {
			return nil
		}
		if err := decoder.SkipValue(); err != nil {
			return errNotJSON
		}
	}
	return errAbsent
}

func enterItem(decoder *jsontext.Decoder, name string) error {
	index, err := strconv.Atoi(name)
	if err != nil || index < 0 {
		return errAbsent
	}
	for range index {
		if kind := decoder.PeekKind(); kind == ']' {
			return errAbsent
		}
		if err := decoder.SkipValue(); err != nil {
			return errNotJSON
		}
	}
	if decoder.PeekKind() == ']' {
		return errAbsent
	}
	return nil
}
