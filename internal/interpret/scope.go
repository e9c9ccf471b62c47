package interpret

import (
	"slices"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
)

// scope is a set of variables with the environment that declares them, made
// when it is first needed.
type scope struct {
	variables   []variable
	environment func() (*cel.Env, error)
}

type variable struct {
	name string
	kind *cel.Type
}

var (
	replyVariables = []variable{
		{"status", cel.IntType},
		{"exit_code", cel.IntType},
		{"headers", cel.MapType(cel.StringType, cel.StringType)},
		{"body", cel.DynType},
		{"result", cel.DynType},
		{"text", cel.StringType},
		{"is_error", cel.BoolType},
		{"args", cel.MapType(cel.StringType, cel.DynType)},
	}
	itemVariables = append(slices.Clip(replyVariables),
		variable{"item", cel.DynType}, variable{"index", cel.IntType})

	replyScope = newScope(replyVariables)
	itemScope  = newScope(itemVariables)
)

func newScope(variables []variable) scope {
	return scope{variables, sync.OnceValues(func() (*cel.Env, error) {
		options := []cel.EnvOption{
			cel.OptionalTypes(), ext.Strings(), cel.CrossTypeNumericComparisons(true), doneFunction(),
			cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
		}
		for _, v := range variables {
			options = append(options, cel.Variable(v.name, v.kind))
		}
		return cel.NewEnv(options...)
	})}
}

func (s scope) names() []string {
	names := make([]string, len(s.variables))
	for i, v := range s.variables {
		names[i] = v.name
	}
	return names
}

var (
	subjectNames = []variable{
		{"tool_use_id", cel.StringType},
		{"conversation_id", cel.StringType},
		{"turn_id", cel.StringType},
		{"idempotency_key", cel.StringType},
	}
	subjectScope = newScope(append(slices.Clip(subjectNames),
		variable{"args", cel.MapType(cel.StringType, cel.DynType)}))
	verificationScope = newScope(append(slices.Clip(replyVariables), subjectNames...))
)

// costLimit bounds one evaluation, in CEL's cost units, which stand for steps
// and for tens of bytes looked at. It is enough to search a reply of 10 MiB and
// spent in well below a second. Beyond it an expression does not match.
const costLimit = 5_000_000
