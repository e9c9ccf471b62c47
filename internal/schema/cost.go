package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sidecall/sidecall/internal/pattern"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// freeSteps is what patterns may cost without being counted: for arguments of
	// which it is known that they cannot cost more.
	freeSteps = 1 << 20
	// maxSteps bounds what the patterns of a schema may cost in one check, all
	// looks at the same value together: about half a second.
	maxSteps = 32 << 20
)

// weight is how many steps a byte of a value may cost in the patterns of a schema and of
// all that it applies, each as often as it is applied; at most just beyond freeSteps.
func weight(root *jsonschema.Schema) int64 {
	return unfolding{own, targets, 0, freeSteps + 1, map[*jsonschema.Schema]int64{}}.of(root)
}

// own is the weight of a schema's own patterns.
func own(s *jsonschema.Schema) (steps int64) {
	if p, ok := s.Pattern.(*expression); ok {
		steps += int64(p.Size())
	}
	for re := range s.PatternProperties {
		if p, ok := re.(*expression); ok {
			steps += int64(p.Size())
		}
	}
	if s.Format != nil && s.Format.Name == "regex" {
		steps += pattern.StepsToRead
	}
	return steps
}

// cheap reports that the patterns cost no more than freeSteps on a value of so
// many bytes of JSON.
func (c checker) cheap(size int) bool {
	return c.weight == 0 || int64(size) <= freeSteps/c.weight
}

// CheckWithin is Check for arguments whose text has size bytes, for as long as
// ctx lasts. Where the patterns of the schema may cost much on them, what they do
// cost is counted. Arguments that cost more than any should are refused with a
// violation; err is the cause of the end of ctx.
func (s *Schema) CheckWithin(ctx context.Context, args map[string]any, size int) (checked map[string]any, notes []string, violations []tool.Error, err error) {
	var ended error
	err = s.within(ctx, size, maxSteps, func(s *Schema) { checked, notes, violations, ended = s.check(ctx, args, size) })
	switch {
	case errors.Is(err, pattern.ErrTooCostly):
		return nil, nil, []tool.Error{s.tooCostly(size)}, nil
	case err != nil:
		return nil, nil, nil, err
	case ended != nil:
		return nil, nil, nil, ended
	}
	return checked, notes, violations, nil
}

// within does a piece of work on arguments whose text has size bytes: with a
// schema that counts what its patterns cost, where they may cost much. The error
// says why the meter has stopped, and then nothing that was found out counts; what is
// wrong with the schema itself the work finds out.
func (s *Schema) within(ctx context.Context, size int, steps int64, work func(*Schema)) error {
	c, err := s.compiled()
	if err != nil || c.cheap(size) {
		work(s)
		return nil
	}
	counted, ok := s.counted.Get().(*Schema)
	if !ok {
		counted = newSchema(s.name, s.source, s.options, &pattern.Meter{})
	}
	defer s.counted.Put(counted)
	counted.meter.Reset(ctx, steps)
	work(counted)
	return counted.meter.Err()
}

// tooCostly is the violation of arguments whose check was given up.
func (s *Schema) tooCostly(size int) tool.Error {
	return tool.Error{
		Code:       tool.CodeInvalidArgs,
		Constraint: fmt.Sprintf("texts that can be matched against the patterns of the schema in %d steps", int64(maxSteps)),
		Received:   fmt.Sprintf("arguments of %d bytes that take more", size),
		Hint:       "Send shorter texts, or fewer at a time, then call " + s.name + " again.",
	}
}

// sizeOf is about how many bytes of JSON a value is, at least those of its texts.
func sizeOf(v any) int {
	size := 1
	switch v := v.(type) {
	case string:
		size += len(v)
	case []any:
		for _, one := range v {
			size += sizeOf(one)
		}
	case map[string]any:
		for name, one := range v {
			size += len(name) + sizeOf(one)
		}
	}
	return size
}
