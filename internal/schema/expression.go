package schema

import (
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sidecall/sidecall/internal/pattern"
)

// expression is a pattern of a schema in the shape that the library wants. Where
// it has a meter, its matches are counted; once that has stopped nothing matches
// any more, and whoever asked looks at the meter.
type expression struct {
	*pattern.Pattern

	meter *pattern.Meter
}

// MatchString implements jsonschema.Regexp.
func (e *expression) MatchString(s string) bool {
	if e.meter == nil {
		return e.Pattern.MatchString(s)
	}
	return e.Match(e.meter, s)
}

// maxPatterns bounds the instructions of all patterns of one schema.
const maxPatterns = 300_000

// patterns are the different ones of a schema, by source.
type patterns map[string]*pattern.Pattern

func (p patterns) total() (size int) {
	for _, one := range p {
		size += one.Size()
	}
	return size
}

// read reads a pattern, which counts it and compiles nothing.
func (p patterns) read(source string) (*pattern.Pattern, error) {
	if one, known := p[source]; known {
		return one, nil
	}
	one, err := pattern.ECMA(source)
	if err != nil {
		return nil, err
	}
	if p.total()+one.Size() > maxPatterns {
		return nil, fmt.Errorf("the patterns of the schema have more than %d instructions together", maxPatterns)
	}
	p[source] = one
	return one, nil
}

// engine compiles the patterns of one schema, and afterwards looks whether what
// a model sends where format is regex is one.
type engine struct {
	known patterns
	meter *pattern.Meter
	done  bool // the schema is compiled
}

// compile is a jsonschema.RegexpEngine.
func (e *engine) compile(source string) (jsonschema.Regexp, error) {
	if e.done {
		return nil, e.read(source)
	}
	one, err := e.known.read(source)
	if err != nil {
		return nil, err
	}
	return &expression{one, e.meter}, nil
}

// read says what is wrong with an expression, which is not compiled for that.
func (e *engine) read(source string) error {
	if e.meter != nil && !e.meter.Spend(int64(len(source))*pattern.StepsToRead) {
		return e.meter.Err()
	}
	_, err := pattern.ECMA(source)
	return err
}
