package interpret

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/tool"
)

// KeyError is what is wrong with an expression of the config, or with what stands in its place.
type KeyError struct {
	// Key leads to it, from the block that is compiled: errors, 1, when.
	Key    []string
	Reason string
}

func (e *KeyError) Error() string {
	var place strings.Builder
	for i, key := range e.Key {
		if _, err := strconv.Atoi(key); err == nil {
			key = "[" + key + "]"
		} else if i > 0 {
			key = "." + key
		}
		place.WriteString(key)
	}
	return place.String() + ": " + e.Reason
}

// Compile compiles a config. Its errors are *KeyError, all at once: they name the
// expression by its place in the config, say in which column it goes wrong and what was
// expected.
func Compile(cfg Config) (*Program, error) {
	c := compiler{}
	p := &Program{
		success:   c.condition(cfg.Success, "http", "success"),
		selection: c.selection(cfg.Result),
		emptyWhen: c.condition(cfg.EmptyWhen, "empty_when"),
		partial:   c.partial(cfg.Partial),
		check:     cfg.Check,
	}
	for i, r := range cfg.Errors {
		at := func(key string) []string { return []string{"errors", strconv.Itoa(i), key} }
		if r.When == "" {
			c.fail("a condition is missing", at("when")...)
		}
		if !r.Code.Valid() {
			c.fail(fmt.Sprintf("there is no code %q", r.Code), at("code")...)
		}
		if r.NotExecuted && r.Code == tool.CodeOutcomeUnknown {
			c.fail("OUTCOME_UNKNOWN says that it may have been executed", at("not_executed")...)
		}
		p.rules = append(p.rules, rule{Rule: r, when: c.condition(r.When, at("when")...)})
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return p, nil
}

// compiler collects errors.
type compiler struct{ errs []error }

func (c *compiler) fail(what string, key ...string) {
	c.errs = append(c.errs, &KeyError{key, what})
}

// condition compiles an expression that is true or false; nil for an empty one.
func (c *compiler) condition(text string, key ...string) *expression {
	return c.compile(text, replyScope, cel.BoolType, key...)
}

func (c *compiler) selection(text string) *selection {
	switch {
	case text == "":
		return nil
	case strings.HasPrefix(text, "/"):
		pointer := jsontext.Pointer(text)
		if !pointer.IsValid() {
			c.fail(fmt.Sprintf("%q is not a JSON pointer: after ~ want 0 or 1", text), "http", "result")
		}
		return &selection{text: text, steps: slices.Collect(pointer.Tokens())}
	default:
		return &selection{text: text, program: c.compile(text, replyScope, nil, "http", "result")}
	}
}

func (c *compiler) partial(r *PartialRule) *partial {
	if r == nil {
		return nil
	}
	if r.Items == "" {
		c.fail("the list of items is missing", "partial", "items")
	}
	if r.OK == "" {
		c.fail("the condition is missing that tells whether an item was done", "partial", "ok")
	}
	return &partial{
		items:   c.compile(r.Items, replyScope, cel.ListType(cel.DynType), "partial", "items"),
		ok:      c.compile(r.OK, itemScope, cel.BoolType, "partial", "ok"),
		id:      c.compile(r.ID, itemScope, nil, "partial", "id"),
		content: c.compile(r.Content, itemScope, nil, "partial", "content"),
		problem: c.compile(r.Error, itemScope, nil, "partial", "error"),
	}
}

// compile compiles one expression; nil for an empty one. want is the type it
// must have, where it is known before a reply is; nil for any.
func (c *compiler) compile(text string, in scope, want *cel.Type, key ...string) *expression {
	if text == "" {
		return nil
	}
	env, err := in.environment()
	if err != nil {
		c.fail(err.Error(), key...)
		return nil
	}
	ast, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		c.fail(explain(issues, text, in), key...)
		return nil
	}
	if got := ast.OutputType(); want != nil && !got.IsExactType(cel.DynType) && got.Kind() != want.Kind() {
		c.fail(fmt.Sprintf("want %s, but %s is of type %s", typeWords[want.Kind()], quoted(text), got), key...)
		return nil
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit), cel.CostTracking(counted{}), cel.EvalOptions(cel.OptOptimize), boundCalls(env))
	if err != nil {
		c.fail(fmt.Sprintf("%s: %v", quoted(text), err), key...)
		return nil
	}
	compiled := &expression{program: program}
	for _, mentioned := range ast.NativeRep().ReferenceMap() {
		compiled.readsArgs = compiled.readsArgs || mentioned.Name == "args"
	}
	return compiled
}

var typeWords = map[types.Kind]string{
	types.BoolKind: "a condition that is true or false",
	types.ListKind: "a list",
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
