package interpret

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/sidecall/sidecall/internal/pattern"
)

// CEL counts what an evaluation costs after each call of a function. That is too
// late where one call alone may take minutes, or all memory: where what it does
// is a product of two lengths that the upstream chooses. So these functions are
// looked at before they are called, by the lengths of what they really get, and
// refuse what would be beyond the limit afterwards; and patterns are matched in
// steps that are counted.

const (
	// maxSteps bounds what all patterns of one reading cost, in steps.
	maxSteps = 64 << 20
	// maxMade bounds what one call may make, in bytes.
	maxMade = 4 * costLimit
	// quickSteps is what a match may cost without being counted.
	quickSteps = 1 << 16
)

var errTooCostly = errors.New("it costs more than an expression may")

// bound says why a call with these arguments must not be made; nil when it may.
type bound func(args []ref.Val) error

// bounds are by the name of the function.
var bounds = map[string]bound{
	"indexOf":     boundSearch,
	"lastIndexOf": boundSearch,
	"replace":     boundReplace,
	"split":       boundSplit,
	"join":        boundJoin,
	"format":      boundFormat,
}

// boundSearch: a search looks at every place for the whole of what it looks for.
func boundSearch(args []ref.Val) error {
	return within(length(args, 0)*length(args, 1), 10*costLimit)
}

func boundReplace(args []ref.Val) error {
	if len(args) < 3 {
		return nil
	}
	found := int64(strings.Count(text(args, 0), text(args, 1)))
	return within(length(args, 0)+found*length(args, 2), maxMade)
}

func boundSplit(args []ref.Val) error {
	if length(args, 1) == 0 {
		return within(length(args, 0), costLimit/2)
	}
	return within(int64(strings.Count(text(args, 0), text(args, 1))), costLimit/2)
}

func boundJoin(args []ref.Val) error {
	list, ok := args[0].(traits.Lister)
	if !ok {
		return nil
	}
	made := int64(0)
	for it := list.Iterator(); it.HasNext() == types.True; {
		one, _ := it.Next().(types.String)
		made += int64(len(one)) + length(args, 1)
		if err := within(made, maxMade); err != nil {
			return err
		}
	}
	return nil
}

// longPrecision is a number of digits that nobody wants to read.
var longPrecision = regexp.MustCompile(`\.[0-9]{4}`)

func boundFormat(args []ref.Val) error {
	if longPrecision.MatchString(text(args, 0)) {
		return errTooCostly
	}
	list, ok := args[len(args)-1].(traits.Lister)
	if !ok {
		return nil
	}
	made := length(args, 0)
	for it := list.Iterator(); it.HasNext() == types.True; {
		one, _ := it.Next().(types.String)
		made += int64(len(one))
	}
	return within(made, maxMade)
}

func within(got, most int64) error {
	if got > most {
		return errTooCostly
	}
	return nil
}

func text(args []ref.Val, i int) string {
	if i >= len(args) {
		return ""
	}
	s, _ := args[i].(types.String)
	return string(s)
}

func length(args []ref.Val, i int) int64 { return int64(len(text(args, i))) }

// bounded is a call that is looked at before it is made.
type bounded struct {
	interpreter.InterpretableV2

	call   interpreter.InterpretableCall
	args   []interpreter.InterpretableV2
	invoke func(frame *interpreter.ExecutionFrame, args []ref.Val) ref.Val
}

// Exec implements interpreter.InterpretableV2.
func (g *bounded) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := make([]ref.Val, len(g.args))
	for i, arg := range g.args {
		args[i] = arg.Exec(frame)
		if types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	result := g.invoke(frame, args)
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalVarArgs(frame, g.ID(), g.call, args, result)
	}
	return result
}

// Eval implements interpreter.Interpretable.
func (g *bounded) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, g.Exec)
}

// boundCalls decorates the calls in an expression that need it.
func boundCalls(env *cel.Env) cel.ProgramOption {
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return i, nil
		}
		g := &bounded{InterpretableV2: i, call: call, args: call.Args()}
		if call.Function() == overloads.Matches {
			var err error
			g.invoke, err = matcher(call)
			return g, err
		}
		check, known := bounds[call.Function()]
		if !known {
			return i, nil
		}
		impl, err := implementation(env, call)
		if impl == nil || err != nil {
			return i, err
		}
		g.invoke = func(_ *interpreter.ExecutionFrame, args []ref.Val) ref.Val {
			if err := check(args); err != nil {
				return types.WrapErr(err)
			}
			return impl(args)
		}
		return g, nil
	})
}

// implementation is what a call would invoke; nil when it is not to be had.
func implementation(env *cel.Env, call interpreter.InterpretableCall) (func(args []ref.Val) ref.Val, error) {
	bindings, err := env.Functions()[call.Function()].Bindings()
	if err != nil {
		return nil, err
	}
	var found *functions.Overload
	for _, one := range bindings {
		if one.Operator == call.OverloadID() || found == nil && one.Operator == call.Function() {
			found = one
		}
	}
	arity := len(call.Args())
	switch {
	case found == nil:
		return nil, nil //nolint:nilnil // as documented
	case arity == 1 && found.Unary != nil:
		return func(args []ref.Val) ref.Val { return found.Unary(args[0]) }, nil
	case arity == 2 && found.Binary != nil:
		return func(args []ref.Val) ref.Val { return found.Binary(args[0], args[1]) }, nil
	case found.Function != nil:
		return func(args []ref.Val) ref.Val { return found.Function(args...) }, nil
	default:
		return nil, nil //nolint:nilnil // as documented
	}
}

// matcher is the function matches: of a constant pattern the one that is
// compiled here.
func matcher(call interpreter.InterpretableCall) (func(*interpreter.ExecutionFrame, []ref.Val) ref.Val, error) {
	args := call.Args()
	var constant *pattern.Pattern
	if c, ok := args[len(args)-1].(interpreter.InterpretableConst); ok {
		if source, ok := c.Value().(types.String); ok {
			compiled, err := pattern.Compile(string(source))
			if err != nil {
				return nil, fmt.Errorf("the pattern cannot be used: %w", err)
			}
			constant = compiled
		}
	}
	return func(frame *interpreter.ExecutionFrame, args []ref.Val) ref.Val {
		subject, ok := args[0].(types.String)
		source, isText := args[1].(types.String)
		if !ok || !isText {
			return types.MaybeNoSuchOverloadErr(args[0])
		}
		meter := meterOf(frame)
		want := constant
		if want == nil {
			if !meter.Spend(int64(len(source)) * pattern.StepsToRead) {
				return types.WrapErr(meter.Err())
			}
			var err error
			if want, err = pattern.Compile(string(source)); err != nil {
				return types.WrapErr(err)
			}
		}
		return match(want, meter, string(subject))
	}, nil
}

func match(want *pattern.Pattern, meter *pattern.Meter, subject string) ref.Val {
	if most := int64(len(subject)+1) * int64(want.Size()); most <= quickSteps {
		if !meter.Spend(int64(len(subject)) + 1) {
			return types.WrapErr(meter.Err())
		}
		return types.Bool(want.MatchString(subject))
	}
	matched := want.Match(meter, subject)
	if err := meter.Err(); err != nil {
		return types.WrapErr(err)
	}
	return types.Bool(matched)
}

// meterName is under which the meter of a reading is found: no identifier.
const meterName = "@meter"

func meterOf(frame *interpreter.ExecutionFrame) *pattern.Meter {
	if found, ok := frame.ResolveName(meterName); ok {
		if meter, ok := found.(*pattern.Meter); ok {
			return meter
		}
	}
	return pattern.NewMeter(context.Background(), maxSteps) // of a constant expression
}

// counted are the costs of calls. CEL counts as one unit what has no overload until it is made, as of
// anything in a reply, whatever it looks at and makes; values that are compared by their outer size alone;
// and counts through the longer of two texts to find the length of the shorter.
type counted struct{}

var (
	_ cost.ActualCostEstimator = counted{}
	// ofCEL are the overloads that CEL counts well, unless they are sizes or make texts.
	ofCEL = cost.StandardOverloadTrackers()
)

// CallCost implements cost.ActualCostEstimator.
func (counted) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	units := uint64(1)
	switch function {
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		units = compared(args[0], args[1])
	case operators.In:
		if list, ok := args[1].(traits.Lister); ok {
			for it := list.Iterator(); it.HasNext() == types.True; {
				units += compared(args[0], it.Next())
			}
		}
	default:
		if ofCEL[overload] != nil && function != overloads.Size && scanned(result) == 0 {
			return nil
		}
		for _, one := range args {
			units += scanned(one)
		}
		units += scanned(result)
	}
	return &units
}

// compared is what it costs to find out that two values are equal.
func compared(a, b ref.Val) uint64 {
	units := uint64(1)
	switch a := a.(type) {
	case traits.Lister:
		b, ok := b.(traits.Lister)
		if !ok || a.Size() != b.Size() {
			return units
		}
		for x, y := a.Iterator(), b.Iterator(); x.HasNext() == types.True; {
			units += compared(x.Next(), y.Next())
		}
	case traits.Mapper:
		b, ok := b.(traits.Mapper)
		if !ok || a.Size() != b.Size() {
			return units
		}
		for names := a.Iterator(); names.HasNext() == types.True; {
			name := names.Next()
			if other, found := b.Find(name); found {
				units += compared(a.Get(name), other)
			}
		}
	default:
		units += min(scanned(a), scanned(b))
	}
	return units
}

// scanned is what it costs to go through the bytes of a value.
func scanned(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) / 10
	case types.Bytes:
		return uint64(len(v)) / 10
	default:
		return 0
	}
}
