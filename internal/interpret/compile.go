package interpret

import (
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/sidecall/sidecall/internal/tool"
)

// Compile compiles a config. Its errors name the expression by its place in
// the config (errors[1].when), say in which column it goes wrong and what was
// expected, and are all reported at once.
func Compile(cfg Config) (*Program, error) {
	c := compiler{}
	p := &Program{
		success:   c.condition("success", cfg.Success),
		selection: c.selection(cfg.Result),
		emptyWhen: c.condition("empty_when", cfg.EmptyWhen),
		partial:   c.partial(cfg.Partial),
		check:     cfg.Check,
	}
	for i, r := range cfg.Errors {
		place := fmt.Sprintf("errors[%d]", i)
		if r.When == "" {
			c.fail(place+".when", "a condition is missing")
		}
		if !r.Code.Valid() {
			c.fail(place+".code", fmt.Sprintf("there is no code %q", r.Code))
		}
		if r.NotExecuted && r.Code == tool.CodeOutcomeUnknown {
			c.fail(place+".not_executed", "OUTCOME_UNKNOWN says that it may have been executed")
		}
		p.rules = append(p.rules, rule{Rule: r, when: c.condition(place+".when", r.When)})
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return p, nil
}

// compiler collects errors.
type compiler struct{ errs []error }

func (c *compiler) fail(place, what string) {
	c.errs = append(c.errs, fmt.Errorf("%s: %s", place, what))
}

// condition compiles an expression that is true or false; nil for an empty one.
func (c *compiler) condition(place, text string) *expression {
	return c.compile(place, text, replyScope, cel.BoolType)
}

func (c *compiler) selection(text string) *selection {
	switch {
	case text == "":
		return nil
	case strings.HasPrefix(text, "/"):
		steps, err := parsePointer(text)
		if err != nil {
			c.fail("result", err.Error())
		}
		return &selection{text: text, steps: steps}
	default:
		return &selection{text: text, program: c.compile("result", text, replyScope, nil)}
	}
}

func (c *compiler) partial(r *PartialRule) *partial {
	if r == nil {
		return nil
	}
	if r.Items == "" {
		c.fail("partial.items", "the list of items is missing")
	}
	if r.OK == "" {
		c.fail("partial.ok", "the condition is missing that tells whether an item was done")
	}
	return &partial{
		items:   c.compile("partial.items", r.Items, replyScope, cel.ListType(cel.DynType)),
		ok:      c.compile("partial.ok", r.OK, itemScope, cel.BoolType),
		id:      c.compile("partial.id", r.ID, itemScope, nil),
		content: c.compile("partial.content", r.Content, itemScope, nil),
		problem: c.compile("partial.error", r.Error, itemScope, nil),
	}
}

// compile compiles one expression; nil for an empty one. want is the type it
// must have, where it is known before a reply is; nil for any.
func (c *compiler) compile(place, text string, in scope, want *cel.Type) *expression {
	if text == "" {
		return nil
	}
	env, err := in.environment()
	if err != nil {
		c.fail(place, err.Error())
		return nil
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		c.fail(place, explain(issues, text, in))
		return nil
	}
	if got := ast.OutputType(); want != nil && !got.IsExactType(cel.DynType) && got.Kind() != want.Kind() {
		c.fail(place, fmt.Sprintf("want %s, but %s is %s", typeWords[want.Kind()], quoted(text), typeName(got)))
		return nil
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit), cel.CostTracking(counted{}), cel.EvalOptions(cel.OptOptimize), boundCalls(env))
	if err != nil {
		c.fail(place, fmt.Sprintf("%s: %v", quoted(text), err))
		return nil
	}
	return &expression{program}
}

var typeWords = map[types.Kind]string{
	types.BoolKind: "a condition that is true or false",
	types.ListKind: "a list",
}

func typeName(t *cel.Type) string {
	return "of type " + t.String()
}

// explain says where an expression goes wrong, in one line per mistake.
func explain(issues *cel.Issues, text string, in scope) string {
	lines := make([]string, 0, 1)
	for _, e := range issues.Errors() {
		place := fmt.Sprintf("column %d", e.Location.Column()+1)
		if strings.Contains(text, "\n") {
			place = fmt.Sprintf("line %d, %s", e.Location.Line(), place)
		}
		what := strings.TrimSuffix(e.Message, " (in container '')")
		lines = append(lines, fmt.Sprintf("%s: %s%s", place, what, suggestion(what, in)))
	}
	return strings.Join(lines, "; ") + " in " + quoted(text)
}

func quoted(text string) string { return "`" + text + "`" }

// suggestion names the variable that may have been meant.
func suggestion(message string, in scope) string {
	_, after, found := strings.Cut(message, "undeclared reference to '")
	name, _, ended := strings.Cut(after, "'")
	if !found || !ended {
		return ""
	}
	names := in.names()
	if near := tool.Closest(name, names); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	return ", the variables are " + strings.Join(names, ", ")
}
