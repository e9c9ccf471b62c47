package assembly

import (
	"encoding/json"
	"errors"

	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/interpret"
	"github.com/sidecall/sidecall/schema"
)

// complaint hears of what is wrong with a tool: under which of its keys, and
// what.
type complaint func(path []string, err error)

// compileSchema compiles what checks the arguments of a tool.
func compileSchema(route *catalog.Route) error {
	compiled, err := schema.Compile(route.Tool.Name, route.Tool.InputSchema,
		schema.Options{Sensitive: route.Tool.Policy.Sensitive, Coerce: route.Tool.Policy.Coerce})
	if err != nil {
		return err
	}
	route.Schema = compiled
	return nil
}

// compileProgram compiles what reads the replies of a tool.
func compileProgram(route *catalog.Route, t config.Tool, wrong complaint) {
	rules := replyRules(t)
	if len(route.Tool.OutputSchema) > 0 {
		check, err := outputCheck(route.Tool.Name, route.Tool.OutputSchema)
		if err != nil {
			wrong([]string{"output_schema"}, err)
			return
		}
		rules.Check = check
	}
	program, err := interpret.Compile(rules)
	if err != nil {
		wrong(nil, err)
		return
	}
	route.Program = program
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
			Items: t.Partial.Items, OK: t.Partial.OK, Content: t.Partial.Content, Error: t.Partial.Error,
		}
	}
	return rules
}

// outputCheck holds a result against the output schema of its tool.
func outputCheck(name string, outputSchema json.RawMessage) (func(json.RawMessage) error, error) {
	compiled, err := schema.CompileOutput(name, outputSchema)
	if err != nil {
		return nil, err
	}
	return func(result json.RawMessage) error {
		if complaint := compiled.ValidateJSON(result); complaint != "" {
			return errors.New(complaint)
		}
		return nil
	}, nil
}
