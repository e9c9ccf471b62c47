package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func parseObject(raw string) (map[string]any, *fault) {
	if strings.Trim(raw, " \t\r\n") == "" {
		return map[string]any{}, nil
	}
	v, f := parseValue([]byte(raw), true)
	if f != nil {
		return nil, f
	}
	args, ok := v.(map[string]any)
	if !ok {
		return nil, &fault{err: errNotObject, value: v, offset: -1}
	}
	return args, nil
}

// decoders are kept because each carries a few hundred bytes of state that
// every call would allocate again.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// parseValue decodes exactly one JSON value. strict refuses duplicate names;
// else the last one wins.
func parseValue(text []byte, strict bool) (any, *fault) {
	v, _, f := countValue(text, strict)
	return v, f
}

// countValue is parseValue, and counts the values within it.
func countValue(text []byte, strict bool) (any, int, *fault) {
	dec := decoders.Get().(*jsontext.Decoder)
	defer func() {
		dec.Reset(emptyReader{}) // do not keep the text alive
		decoders.Put(dec)
	}()
	dec.Reset(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(!strict))
	p := parser{dec: dec}
	v, err := p.value(0)
	if err != nil {
		return nil, 0, newFault(dec, err)
	}
	end := int(dec.InputOffset())
	if _, err = dec.ReadToken(); errors.Is(err, io.EOF) {
		return v, p.values, nil
	}
	return nil, 0, &fault{err: errEndOfInput, offset: end, found: utf8.RuneError}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, io.EOF }

// parser builds the tree. jsontext checks the grammar; parser bounds the size.
type parser struct {
	dec    *jsontext.Decoder
	values int
}

func (p *parser) value(depth int) (any, error) {
	token, err := p.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if p.values++; p.values > MaxValues {
		return nil, errTooMany
	}
	switch token.Kind() {
	case jsontext.KindBeginObject:
		return p.object(depth + 1)
	case jsontext.KindBeginArray:
		return p.array(depth + 1)
	case jsontext.KindString:
		return token.String(), nil
	case jsontext.KindNumber:
		text := token.String()
		return json.Number(text), checkNumber(text)
	case jsontext.KindTrue:
		return true, nil
	case jsontext.KindFalse:
		return false, nil
	default: // null; the decoder returns no closing bracket where a value must be
		return nil, nil
	}
}

func (p *parser) object(depth int) (any, error) {
	if depth > MaxDepth {
		return nil, errTooDeep
	}
	obj := make(map[string]any)
	for p.dec.PeekKind() != jsontext.KindEndObject {
		name, err := p.dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		if obj[key], err = p.value(depth); err != nil {
			return nil, err
		}
	}
	_, err := p.dec.ReadToken()
	return obj, err
}

func (p *parser) array(depth int) (any, error) {
	if depth > MaxDepth {
		return nil, errTooDeep
	}
	arr := []any{}
	for p.dec.PeekKind() != jsontext.KindEndArray {
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		arr = append(arr, v)
	}
	_, err := p.dec.ReadToken()
	return arr, err
}
