package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Pick returns the value to which a path leads in a JSON text, as it stands there. The
// text is read to its end: what is no JSON further down is no JSON, and a name that
// stands twice could mean either. The error says what is there instead, in words of
// ours and of the path alone, never in those of the text; most bounds the value, in
// bytes.
func Pick(data []byte, path Path, most int) (value []byte, err error) {
	p := picker{dec: jsontext.NewDecoder(bytes.NewBuffer(data)), path: &path, most: most}
	if value, err = p.follow(); err != nil {
		return nil, p.told(err)
	}
	for p.dec.StackDepth() > 0 {
		if _, err := p.dec.ReadToken(); err != nil {
			return nil, p.told(err)
		}
	}
	if _, err := p.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, p.noJSON()
	}
	return value, nil
}

type picker struct {
	dec  *jsontext.Decoder
	path *Path
	most int
}

// nowhere is why a path leads to nothing.
type nowhere struct{ why string }

func (n *nowhere) Error() string { return n.why }

// told is an error as it may be told: that of the decoder quotes the text.
func (p *picker) told(err error) error {
	if _, ok := errors.AsType[*nowhere](err); ok {
		return err
	}
	return p.noJSON()
}

func (p *picker) noJSON() error {
	return &nowhere{fmt.Sprintf("the output is no JSON text from byte %d on; without path it is taken whole, as a text", p.dec.InputOffset())}
}

func (p *picker) follow() ([]byte, error) {
	at := 1
	for _, s := range p.path.steps {
		if err := p.into(s, p.path.text[:at]); err != nil {
			return nil, err
		}
		at = s.end
	}
	value, err := p.dec.ReadValue()
	switch {
	case err != nil:
		return nil, err
	case len(value) > p.most:
		return nil, &nowhere{fmt.Sprintf("%s has %d bytes, and at most %d can be passed", p.path.text, len(value), p.most)}
	}
	return bytes.Clone(value), nil // the decoder goes on in what it has
}

// into goes one step further, from the value at a place.
func (p *picker) into(s step, place string) error {
	want := jsontext.KindBeginObject
	if s.index >= 0 {
		want = jsontext.KindBeginArray
	}
	if kind := p.dec.PeekKind(); kind != want {
		if kind == 0 {
			_, err := p.dec.ReadToken()
			return err
		}
		return &nowhere{fmt.Sprintf("%s is %s, and the path goes on as if it were %s", place, kindName(kind), kindName(want))}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return err
	}
	if s.index >= 0 {
		return p.item(s.index, place)
	}
	return p.member(s.name, place)
}

func (p *picker) item(index int, place string) error {
	for n := 0; ; n++ {
		switch kind := p.dec.PeekKind(); {
		case kind == jsontext.KindEndArray:
			return &nowhere{fmt.Sprintf("%s has %d items, numbered from 0 on, and no [%d]", place, n, index)}
		case n == index:
			return nil
		}
		if err := p.dec.SkipValue(); err != nil {
			return err
		}
	}
}

func (p *picker) member(name, place string) error {
	for p.dec.PeekKind() != jsontext.KindEndObject {
		token, err := p.dec.ReadToken()
		if err != nil {
			return err
		}
		if token.Kind() == jsontext.KindString && token.String() == name {
			return nil
		}
		if err := p.dec.SkipValue(); err != nil {
			return err
		}
	}
	return &nowhere{fmt.Sprintf("%s has no member of this name", place)}
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "an array"
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindNull:
		return "null"
	}
	return "a boolean"
}
