package interpret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// parse decodes JSON into what CEL knows: integers stay integers where int64
// holds them, so that they can be compared and counted with.
func parse(text []byte) (any, error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text), backend.LooseJSON...)
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

func isJSON(reply *tool.Reply) bool { return reply.JSON || backend.EvidentJSON(reply.Text) }

// plainValue turns a CEL value into what encoding/json writes.
func plainValue(value ref.Val) any {
	switch v := value.(type) {
	case types.Null:
		return nil
	case traits.Mapper:
		object := make(map[string]any)
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			object[fmt.Sprint(key.Value())] = plainValue(v.Get(key))
		}
		return object
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			list = append(list, plainValue(it.Next()))
		}
		return list
	case *types.Optional:
		if !v.HasValue() {
			return nil
		}
		return plainValue(v.GetValue())
	case types.Duration, types.Timestamp:
		return fmt.Sprint(v.ConvertToType(types.StringType).Value())
	default:
		return value.Value()
	}
}

// encode writes JSON that stays readable: < > & are not escaped.
func encode(value any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("it cannot be written as JSON: %w", err)
	}
	return json.RawMessage(bytes.TrimSpace(b.Bytes())), nil
}
