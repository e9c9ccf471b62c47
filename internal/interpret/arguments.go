package interpret

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Arguments are those of a call that follows from another one: an expression for each. They are
// immutable and safe for concurrent use.
type Arguments struct {
	names []string // sorted
	of    map[string]*expression
}

// CompileArguments compiles the arguments of a call that follows from another one and its
// result, by name. All are CEL: the variables are those of a Verification, and the answer is the
// call's own. The errors are *KeyError, all at once.
func CompileArguments(args map[string]string) (*Arguments, error) {
	c := compiler{}
	a := c.arguments(args, verificationScope)
	return a, errors.Join(c.errs...)
}

func (c *compiler) arguments(args map[string]string, in scope) *Arguments {
	a := &Arguments{names: slices.Sorted(maps.Keys(args)), of: make(map[string]*expression, len(args))}
	for _, name := range a.names {
		if args[name] == "" {
			c.fail("an expression is missing", "args", name)
		}
		a.of[name] = c.compile(args[name], in, nil, "args", name)
	}
	return a
}

// After are the arguments that follow from a call and what was read of its reply: a JSON object.
func (a *Arguments) After(reading *Reading, about Subject) (json.RawMessage, error) {
	return a.object(&verificationView{view: &view{reply: &reading.Reply, failure: reading.Failure, args: about.Args}, about: &about})
}

func (a *Arguments) object(seen *verificationView) (json.RawMessage, error) {
	args := make(map[string]any, len(a.names))
	for _, name := range a.names {
		value, err := a.of[name].value(seen)
		if err != nil {
			return nil, fmt.Errorf("args.%s: %w", name, err)
		}
		args[name] = plainValue(value)
	}
	return encode(args)
}
