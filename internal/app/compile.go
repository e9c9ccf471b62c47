package app

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/schema"
)

// complaint hears of what is wrong with a tool: under which of its keys, and
// what.
type complaint func(path []string, err error)

// compileSchema compiles what checks the arguments of a tool. The draft is its
// text as far as it could be read, whatever comes of it.
func compileSchema(route *catalog.Route, patterns *allowance) (schema.Draft, error) {
	compiled, draft, err := schema.CompileDraft(route.Tool.Name, route.Tool.InputSchema,
		schema.Options{Sensitive: route.Tool.Policy.Sensitive, Coerce: route.Tool.Policy.Coerce, Closed: !route.Tool.Policy.ForwardUndeclared})
	if err != nil {
		return draft, err
	}
	if err := patterns.take(compiled.Instructions()); err != nil {
		return draft, fmt.Errorf("tool %s: input_schema: %w", route.Tool.Name, err)
	}
	route.Schema = compiled
	return draft, nil
}

// compileProgram compiles what reads the replies of a tool.
func compileProgram(route *catalog.Route, t config.Tool, patterns *allowance, wrong complaint) {
	rules := replyRules(t)
	if len(route.Tool.OutputSchema) > 0 {
		compiled, err := schema.CompileOutput(route.Tool.Name, route.Tool.OutputSchema)
		if err == nil {
			err = patterns.take(compiled.Instructions())
		}
		if err != nil {
			wrong([]string{"output_schema"}, err)
			return
		}
		rules.Check = outputCheck(compiled)
	}
	program, err := interpret.Compile(rules)
	if err != nil {
		wrong(nil, err)
		return
	}
	route.Program = program
}

// compileApproval compiles the condition under which a person is asked before a call.
func compileApproval(route *catalog.Route, rules config.CallRules, wrong complaint) {
	if rules.ApproveWhen == "" {
		return
	}
	approval, err := interpret.CompileApproval(rules.ApproveWhen)
	if err != nil {
		wrong(nil, err) // which says under which key
		return
	}
	route.Approval = approval
}

// replyRules are what the config says of the replies of a tool.
func replyRules(t config.Tool) interpret.Config {
	rules := interpret.Config{EmptyWhen: t.EmptyWhen}
	if t.HTTP != nil {
		rules.Success, rules.Result = t.HTTP.Success, t.HTTP.Result
	}
	for _, rule := range t.Errors {
		rules.Errors = append(rules.Errors, interpret.Rule{
			When: rule.When, Code: rule.Code, Hint: rule.Hint, Field: rule.Field,
			AllowedAlternatives: rule.AllowedAlternatives, NotExecuted: rule.NotExecuted,
		})
	}
	if t.Partial != nil {
		rules.Partial = &interpret.PartialRule{
			Items: t.Partial.Items, OK: t.Partial.OK, ID: t.Partial.ID, Content: t.Partial.Content, Error: t.Partial.Error,
		}
	}
	return rules
}

// outputCheck holds a result against the output schema of its tool.
func outputCheck(compiled *schema.Output) func(json.RawMessage) error {
	return func(result json.RawMessage) error {
		if complaint := compiled.ValidateJSON(result); complaint != "" {
			return errors.New(complaint)
		}
		return nil
	}
}

// maxBackendPatterns bounds the instructions of all patterns in the schemas of
// the tools that one backend has found: some 40 bytes each.
const maxBackendPatterns = 1_000_000

// allowance is how many instructions patterns may still have; nil is without
// end, for what the operator wrote.
type allowance struct{ left int }

func (a *allowance) take(instructions int) error {
	if a == nil || instructions <= 0 {
		return nil
	}
	if a.left < instructions {
		return fmt.Errorf("the patterns of this backend's tools have more than %d instructions together", maxBackendPatterns)
	}
	a.left -= instructions
	return nil
}
