package interpret

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"cel.dev/cel-go/interpreter"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/backend"
	"github.com/sidecall/sidecall/tool"
)

// view is one reply as the expressions see it: a CEL activation that parses
// only what is asked for, and that once. It serves one goroutine.
type view struct {
	reply     *backend.Reply
	failure   *tool.Failure
	args      map[string]any
	selection *selection

	body, result         any
	bodyRead, resultRead bool
	nativeArgs           map[string]any

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
		return string(v.reply.Text), true
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
func jsonOf(reply *backend.Reply) []byte {
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

func isJSON(reply *backend.Reply) bool {
	if reply.JSON {
		return true
	}
	start := bytes.TrimLeft(reply.Text, " \t\r\n")
	return len(start) > 0 && (start[0] == '{' || start[0] == '[') && jsontext.Value(reply.Text).IsValid(loose...)
}

// loose accepts what JSON parsers in use accept.
var loose = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// parse decodes JSON into what CEL knows: integers stay integers where int64
// holds them, so that they can be compared and counted with.
func parse(text []byte) (any, error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text), loose...)
	value, err := parseValue(decoder)
	if err != nil {
		return nil, err
	}
	return value, nil
}

func parseValue(decoder *jsontext.Decoder) (any, error) {
	token, err := decoder.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	case '0':
		return number(token.String()), nil
	case '[':
		return parseList(decoder)
	case '{':
		return parseObject(decoder)
	default:
		return nil, errors.New("unexpected token")
	}
}

func parseList(decoder *jsontext.Decoder) (any, error) {
	list := []any{}
	for decoder.PeekKind() != ']' {
		value, err := parseValue(decoder)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := decoder.ReadToken()
	return list, err
}

func parseObject(decoder *jsontext.Decoder) (any, error) {
	object := map[string]any{}
	for decoder.PeekKind() != '}' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		value, err := parseValue(decoder)
		if err != nil {
			return nil, err
		}
		object[key] = value
	}
	_, err := decoder.ReadToken()
	return object, err
}

// number is an int64 where the text is an integer that fits, else a float64.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return text // not a number after all
	}
	return f
}

// native turns json.Number into what CEL knows.
func native(value any) any {
	switch v := value.(type) {
	case json.Number:
		return number(v.String())
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = native(v[i])
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, member := range v {
			object[name] = native(member)
		}
		return object
	default:
		return value
	}
}
