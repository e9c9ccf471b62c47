package interpret

import (
	"errors"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/sidecall/sidecall/internal/pattern"
)

// expression is a compiled expression.
type expression struct {
	program   cel.Program
	readsArgs bool // it mentions args
}

// holds reports whether a condition is true. One that cannot be evaluated does
// not hold.
func (e *expression) holds(v interpreter.Activation) bool {
	value, err := e.value(v)
	return err == nil && value == types.True
}

// value evaluates it with the variables of v.
func (e *expression) value(v interpreter.Activation) (ref.Val, error) {
	value, _, err := e.program.Eval(v)
	return value, err
}

// priced evaluates it and adds what that cost to spent, in CEL's units.
func (e *expression) priced(v interpreter.Activation, spent *int64) (ref.Val, error) {
	value, details, err := e.program.Eval(v)
	if cost := details.ActualCost(); cost != nil {
		*spent += int64(min(*cost, costLimit)) + 1
	}
	return value, err
}

// tooCostly reports that an evaluation was broken off for what it costs: what it would have said nobody knows.
func tooCostly(err error) bool {
	_, cancelled := errors.AsType[interpreter.EvalCancelledError](err)
	return cancelled || errors.Is(err, errTooCostly) || errors.Is(err, pattern.ErrTooCostly)
}

// isTrue evaluates a condition; one that is not there does not hold.
func (e *expression) isTrue(in interpreter.Activation) (bool, error) {
	if e == nil {
		return false, nil
	}
	value, err := e.value(in)
	if err != nil {
		return false, err
	}
	holds, ok := value.(types.Bool)
	if !ok {
		return false, fmt.Errorf("it is of type %s, not true or false", value.Type().TypeName())
	}
	return bool(holds), nil
}
