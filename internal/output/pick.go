package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Picked is the value to which a path leads in a JSON text, as it stands there, or why
// there is none: what is there instead, in words of ours and of the path alone, never
// in those of the text.
type Picked struct {
	Value []byte
	Err   error
}

// Pick returns the values to which paths lead. The text is read once, to its end: what
// is no JSON further down is no JSON, and a name that stands twice could mean either.
// most bounds each value, in bytes.
func Pick(data []byte, paths []Path, most int) []Picked {
	p := picker{dec: jsontext.NewDecoder(bytes.NewBuffer(data)), data: data, most: most, picked: make([]Picked, len(paths))}
	wants := make([]want, len(paths))
	for i := range paths {
		wants[i] = want{path: &paths[i], of: i}
	}
	err := p.value(wants)
	if err == nil {
		if _, err = p.dec.ReadToken(); errors.Is(err, io.EOF) {
			return p.picked
		}
	}
	for i := range p.picked {
		p.picked[i] = Picked{Err: fmt.Errorf("the output is no JSON text from byte %d on; without path it is taken whole, as a text", p.dec.InputOffset())}
	}
	return p.picked
}

type picker struct {
	dec    *jsontext.Decoder
	data   []byte
	most   int
	picked []Picked
}

// want is a path that has been followed to a place.
type want struct {
	path *Path
	done int // steps
	of   int // which path it is
}

func (w want) step() step { return w.path.steps[w.done] }

// place is the path as far as it has been followed.
func (w want) place() string {
	if w.done == 0 {
		return w.path.text[:1]
	}
	return w.path.text[:w.path.steps[w.done-1].end]
}

func (p *picker) nowhere(w want, format string, args ...any) {
	p.picked[w.of].Err = fmt.Errorf("%s "+format, append([]any{w.place()}, args...)...)
}

// value reads the next value, for those who want it and those who want a part of it.
func (p *picker) value(wants []want) error {
	before, kind := p.dec.InputOffset(), p.dec.PeekKind()
	inside := make([]want, 0, len(wants))
	for _, w := range wants {
		if w.done == len(w.path.steps) {
			continue
		}
		expected := jsontext.KindBeginObject
		if w.step().index >= 0 {
			expected = jsontext.KindBeginArray
		}
		if kind == expected {
			inside = append(inside, w)
		} else {
			p.nowhere(w, "is %s, and the path goes on as if it were %s", kindName(kind), kindName(expected))
		}
	}
	if err := p.parts(kind, inside); err != nil {
		return err
	}
	value := bytes.TrimLeft(p.data[before:p.dec.InputOffset()], " \t\r\n,:")
	for _, w := range wants {
		switch {
		case w.done < len(w.path.steps):
		case len(value) > p.most:
			p.nowhere(w, "has %d bytes, and at most %d can be passed", len(value), p.most)
		default:
			p.picked[w.of].Value = bytes.Clone(value)
		}
	}
	return nil
}

// parts reads a value, and looks into it for those who want a part.
func (p *picker) parts(kind jsontext.Kind, wants []want) error {
	if len(wants) == 0 {
		return p.dec.SkipValue()
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; p.dec.PeekKind() != jsontext.KindEndObject && p.dec.PeekKind() != jsontext.KindEndArray; n++ {
		var name string
		if kind == jsontext.KindBeginObject {
			token, err := p.dec.ReadToken()
			if err != nil {
				return err
			}
			name = token.String()
		}
		var here []want
		wants = slices.DeleteFunc(wants, func(w want) bool {
			is := w.step().name == name && (kind == jsontext.KindBeginObject || w.step().index == n)
			if is {
				here = append(here, want{w.path, w.done + 1, w.of})
			}
			return is
		})
		if err := p.value(here); err != nil {
			return err
		}
	}
	for _, w := range wants {
		if w.step().index >= 0 {
			p.nowhere(w, "has %d items, numbered from 0 on, and no [%d]", n, w.step().index)
		} else {
			p.nowhere(w, "has no member of this name")
		}
	}
	_, err := p.dec.ReadToken()
	return err
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
