package app

import (
	"errors"
	"regexp"
	"slices"
	"strings"

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
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []located
		for _, one := range several.Unwrap() {
			all = append(all, locate(one, path)...)
		}
		return all
	}
	var input *schema.CompileError
	var output *schema.OutputError
	switch {
	case errors.As(err, &output):
		return []located{inSchema(output.CompileError, path)}
	case errors.As(err, &input):
		return []located{inSchema(*input, path)}
	}
	if key, ok := errors.AsType[*interpret.KeyError](err); ok {
		return []located{{append(slices.Clone(path), key.Key...), errors.New(key.Reason), config.RuleExpression}}
	}
	if field, ok := errors.AsType[*failures.FieldError](err); ok {
		return []located{{append(slices.Clone(path), steps.FindAllString(field.Field, -1)...), errors.New(field.Reason), config.RuleValue}}
	}
	return []located{inExpression(err, path)}
}

// pointerToken undoes the escapes of a JSON pointer (RFC 6901 section 4).
var pointerToken = strings.NewReplacer("~1", "/", "~0", "~")

func inSchema(err schema.CompileError, path []string) located {
	path = slices.Clone(path)
	for token := range strings.SplitSeq(strings.TrimPrefix(err.Pointer, "/"), "/") {
		if token != "" {
			path = append(path, pointerToken.Replace(token))
		}
	}
	return located{path, errors.New("not a JSON Schema that can be used: " + err.Reason), config.RuleSchema}
}

// expressionPlace is how interpret names the expression at fault.
var expressionPlace = regexp.MustCompile(`^(success|result|empty_when|partial\.\w+|errors\[\d+\]\.\w+): `)

// inExpression turns "errors[1].when: ..." into a path and the rest.
func inExpression(err error, path []string) located {
	named := expressionPlace.FindStringSubmatch(err.Error())
	if named == nil {
		return located{path, err, config.RuleExpression}
	}
	path = slices.Clone(path)
	if named[1] == "success" || named[1] == "result" {
		path = append(path, "http")
	}
	place := strings.NewReplacer("[", ".", "].", ".").Replace(named[1])
	return located{append(path, strings.Split(place, ".")...), errors.New(strings.TrimPrefix(err.Error(), named[0])), config.RuleExpression}
}

// steps takes rules[1].suggest[0] apart.
var steps = regexp.MustCompile(`\w+`)
