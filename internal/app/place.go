package app

import (
	"errors"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/rules/history/failures"
	"github.com/sidecall/sidecall/internal/schema"
)

// located is one thing that is wrong with a tool: where in the config file, and
// what.
type located struct {
	path []string
	err  error
	rule config.Rule
}

// locate takes an error apart that says several things, and finds the place
// that each of them names. path is where the whole was read from.
func locate(err error, path []string) []located {
	var all []located
	for _, one := range each(err) {
		all = append(all, locateOne(one, path))
	}
	return all
}

func locateOne(err error, path []string) located {
	var input *schema.CompileError
	var output *schema.OutputError
	switch {
	case errors.As(err, &output):
		return inSchema(output.CompileError, path)
	case errors.As(err, &input):
		return inSchema(*input, path)
	}
	if key, ok := errors.AsType[*interpret.KeyError](err); ok {
		return located{slices.Concat(path, key.Key), errors.New(key.Reason), config.RuleExpression}
	}
	if field, ok := errors.AsType[*failures.FieldError](err); ok {
		return located{slices.Concat(path, steps.FindAllString(field.Field, -1)), errors.New(field.Reason), config.RuleValue}
	}
	return located{path, err, config.RuleExpression}
}

func inSchema(err schema.CompileError, path []string) located {
	path = slices.AppendSeq(slices.Clone(path), jsontext.Pointer(err.Pointer).Tokens())
	return located{path, errors.New("not a JSON Schema that can be used: " + err.Reason), config.RuleSchema}
}

// steps takes rules[1].suggest[0] apart.
var steps = regexp.MustCompile(`\w+`)

// each takes a joined error apart.
func each(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, each(one)...)
	}
	return all
}
