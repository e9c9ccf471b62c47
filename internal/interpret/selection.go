package interpret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

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
	show(reply, result)
	return nil
}

// show makes a JSON text what the reply says: a string as the text that it is.
func show(reply *tool.Reply, result json.RawMessage) {
	reply.Text, reply.JSON = result, true
	if result[0] == '"' {
		if text, err := jsontext.AppendUnquote(nil, result); err == nil {
			reply.Text, reply.JSON = text, false
		}
	}
	reply.Size = int64(len(reply.Text))
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
	text, err := s.json(v)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// evaluate evaluates the expression. Inside it result means body: what it
// selects is not there yet.
func (s *selection) evaluate(v *view) (ref.Val, error) {
	inner := *v
	inner.selection = nil
	inner.body, inner.bodyRead = v.parsed(), true
	return s.program.value(&inner)
}

// locate follows a pointer through JSON text and returns the text it points to.
func locate(text []byte, steps []string) (json.RawMessage, error) {
	for _, name := range steps {
		var err error
		if text, err = child(text, name); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// child is the text of a member or an item of JSON text. Of two members with one name it is the last
// one's, as for parse.
func child(text []byte, name string) ([]byte, error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text), backend.LooseJSON...)
	token, err := decoder.ReadToken()
	if err != nil {
		return nil, errNotJSON
	}
	isObject := token.Kind() == '{'
	index, err := strconv.Atoi(name)
	if !isObject && (token.Kind() != '[' || err != nil) {
		return nil, errAbsent
	}
	var found []byte
	for i := 0; (isObject || i <= index) && decoder.PeekKind() != '}' && decoder.PeekKind() != ']'; i++ {
		isIt := i == index
		if isObject {
			key, err := decoder.ReadToken()
			if err != nil {
				return nil, errNotJSON
			}
			isIt = key.String() == name
		}
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, errNotJSON
		}
		if isIt {
			end := decoder.InputOffset()
			found = text[end-int64(len(value)) : end : end]
		}
	}
	if found == nil {
		return nil, errAbsent
	}
	return found, nil
}
