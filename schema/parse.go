package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/tool"
)

// Bounds of the arguments of one call. Depth and Values keep the memory of a
// check proportional to something sane: the validator may remember an error for
// every single value.
const (
	// MaxDepth is how deep arrays and objects may be nested.
	MaxDepth = 100
	// MaxValues is how many values (members, items, scalars) there may be.
	MaxValues = 100_000
)

var (
	errTooDeep    = fmt.Errorf("at most %d levels of nesting", MaxDepth)
	errTooMany    = fmt.Errorf("at most %d values", MaxValues)
	errNotObject  = errors.New("a JSON object")
	errEndOfInput = errors.New("the end of the arguments")
)

// ParseArgs reads the arguments of a call as the model wrote them: one JSON
// object, strictly RFC 8259 in valid UTF-8, every name once per object, nothing
// behind it. Empty or blank text means {}. Numbers are json.Number, so nothing
// is rounded. Nothing is repaired in silence: whatever else it is comes back as
// one violation with line, column and what was expected there; toolName is only
// named in its hint.
func ParseArgs(toolName, raw string) (map[string]any, *tool.Error) {
	args, fault := parseObject(raw)
	if fault == nil {
		return args, nil
	}
	violation := fault.violation(toolName, raw)
	return nil, &violation
}

// ParseArgs is the same for a tool whose schema is known: where that knows of
// sensitive properties, broken text is not repeated in the violation.
func (s *Schema) ParseArgs(raw string) (map[string]any, *tool.Error) {
	args, violation := ParseArgs(s.name, raw)
	if violation != nil && (s.Prepare() != nil || s.sensitive().any()) {
		violation.Received = tool.ReceivedRedacted
	}
	return args, violation
}

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
	dec := decoders.Get().(*jsontext.Decoder)
	defer func() {
		dec.Reset(emptyReader{}) // do not keep the text alive
		decoders.Put(dec)
	}()
	dec.Reset(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(!strict))
	p := parser{dec: dec}
	v, err := p.value(0)
	if err != nil {
		return nil, newFault(dec, err)
	}
	end := int(dec.InputOffset())
	if _, err = dec.ReadToken(); errors.Is(err, io.EOF) {
		return v, nil
	}
	return nil, &fault{err: errEndOfInput, offset: end, found: utf8.RuneError}
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
