package app

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// inspection looks at one tool of the file.
type inspection struct {
	*problems
	// drafts are what the input schemas of the declared tools say.
	drafts map[string]schema.Draft
	// effect and own are the tool's; own knows nothing of a discovered one.
	effect tool.Effect
	own    schema.Draft
	at     []string
}

func (i *inspection) under(keys ...string) []string { return slices.Concat(i.at, keys) }

// declared looks at what only a tool of the file has: schemas and a request.
func (i *inspection) declared(t config.Tool) {
	if t.InputSchema != nil {
		i.keywords(i.own, "input_schema")
	}
	if t.OutputSchema != nil {
		i.keywords(schema.ReadDraft(t.OutputSchema), "output_schema")
	}
	if i.effect != tool.ReadOnly && !i.own.Closed() {
		at := i.at
		if t.InputSchema != nil {
			at = i.under("input_schema")
		}
		why := "one that is misspelt goes unnoticed, and the effect is another"
		if i.own.Enforced() {
			why = "Sidecall refuses others all the same, but models and providers take it for open"
		}
		i.add(config.RuleOpenSchema, fmt.Sprintf("the schema of a %s tool does not say that it has no other arguments: %s; add additionalProperties: false", i.effect, why), at...)
	}
	if why := withoutKey(i.effect, i.own); why != "" && t.EffectKey == nil {
		i.add(config.RuleEffectKey, why, i.at...)
	}
	if why := asWaiting(i.at[1], i.effect); why != "" && !t.Polling {
		i.add(config.RulePolling, why, i.at...)
	}
	if t.HTTP != nil {
		i.request(t.HTTP)
	}
	i.recovery(t.CallRules)
	if t.MCP != nil && t.Effect == nil {
		i.add(config.RuleEffectUnsaid, "nothing is said of its effect, so it counts as non_idempotent", i.at...)
	}
}

// keywords looks for words in a schema that were meant to be keywords.
func (i *inspection) keywords(draft schema.Draft, key string) {
	for _, m := range draft.Misspellings() {
		at := slices.AppendSeq(i.under(key), jsontext.Pointer(m.Pointer).Tokens())
		i.addAtKey(config.RuleSchemaKeyword, fmt.Sprintf("JSON Schema has no keyword %q and would ignore it; did you mean %q? (a word of your own begins with x-)", m.Word, m.Meant), at...)
	}
}

// request holds what an http tool sends against what its schema lets be sent.
func (i *inspection) request(t *config.HTTPTool) {
	spec := httpSpec(t)
	for _, arg := range spec.PathArguments() {
		if at := i.under("http", "path"); i.argument(arg, at) && !i.own.Requires(arg) {
			i.add(config.RuleArgumentOptional, fmt.Sprintf("the path needs %q and the input schema does not require it", arg), at...)
		}
	}
	for key, places := range map[string]map[string]string{"query": t.Query, "headers": t.Headers, "body": bodyMembers(t)} {
		for name, arg := range places {
			i.argument(arg, i.under("http", key, name))
		}
	}
	if t.Body != nil && t.Body.Arg != "" {
		i.argument(t.Body.Arg, i.under("http", "body"))
	}
	for _, unsent := range spec.Unused(i.own.Names()) {
		i.add(config.RuleArgumentUnsent, fmt.Sprintf("the input schema has %q and the request sends it nowhere", unsent), i.under("http")...)
	}
}

func bodyMembers(t *config.HTTPTool) map[string]string {
	if t.Body == nil {
		return nil
	}
	return t.Body.Members
}

// argument looks at one argument that is sent; false when something is wrong
// with it.
func (i *inspection) argument(name string, at []string) bool {
	return i.has(i.own, "the input schema", name, "no call of this tool can be right", unknownToModels, at)
}

// has reports whether a schema speaks of an argument; else it says so, and what follows where
// it can never have it, or does not mention it.
func (p *problems) has(draft schema.Draft, what, name, never, open string, at []string) bool {
	switch {
	case draft.Never(name):
		p.add(config.RuleArgument, fmt.Sprintf("%s can never have %q%s: %s", what, name, meant(draft.Nearest(name)), never), at...)
	case !draft.Mentions(name):
		p.add(config.RuleArgumentUndeclared, unmentioned(draft, what, name)+open, at...)
	default:
		return true
	}
	return false
}

// unknownToModels is what follows where a schema does not mention an argument that a model is to send.
const unknownToModels = ": no model knows of it"

func unmentioned(draft schema.Draft, what, name string) string {
	return fmt.Sprintf("%s does not mention %q%s", what, name, meant(draft.Nearest(name)))
}

func meant(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", name)
}

// rules looks at what declared and discovered tools have in common.
func (i *inspection) rules(r config.CallRules) {
	if r.Verify != nil {
		i.verification(r.Verify)
	}
	if r.CompensateWith != nil {
		i.derived(r.CompensateWith.Tool, r.CompensateWith.Args, "compensate_with")
	}
	for n, rule := range r.Errors {
		for m, name := range rule.AllowedAlternatives {
			other, ok := i.config.Tools[name]
			if effect := other.EffectOrDefault(); ok && schema.Stronger(effect, i.effect) {
				i.add(config.RuleAlternative, fmt.Sprintf("%q is %s, and this tool is %s: models are not told of it", name, effect, i.effect),
					i.under("errors", fmt.Sprint(n), "allowed_alternatives", fmt.Sprint(m))...)
			}
		}
	}
}

// verification holds what a verification asks with against the schemas: of the
// tool that it asks, and of its own.
func (i *inspection) verification(v *config.Verify) {
	i.derived(v.Tool, v.Args, "verify")
	i.reads(v.DoneWhen, "verify", "done_when")
	i.reads(v.NotRunWhen, "verify", "not_run_when")
	i.reads(v.Result, "verify", "result")
}

// derived holds the arguments of a call that is derived from one of this tool against the
// schemas of both.
func (i *inspection) derived(with string, args map[string]string, key string) {
	asked, known := i.drafts[with]
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if known {
			i.has(asked, "the input schema of "+with, name, "it can never be asked", "", i.under(key, "args", name))
		}
		i.reads(args[name], key, "args", name)
	}
	for _, name := range asked.Required() {
		if _, given := args[name]; !given && known {
			i.add(config.RuleArgument, fmt.Sprintf("the input schema of %s requires %q: without it, it can never be asked", with, name), i.under(key, "args")...)
		}
	}
}

// argsMember finds which arguments an expression reads, and quoted text, which
// reads none.
var argsMember = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\b(has\(\s*)?args\.([A-Za-z_]\w*)`)

// reads looks for arguments in an expression that the tool can never have. What
// it asks for with has() it can do without.
func (i *inspection) reads(expression string, key ...string) {
	told := map[string]bool{}
	for _, found := range argsMember.FindAllStringSubmatch(expression, -1) {
		if name := found[2]; found[1] != "" {
			told[name] = true
		} else if name != "" && !told[name] && i.own.Never(name) {
			told[name] = true
			i.add(config.RuleArgument, fmt.Sprintf("the input schema can never have %q%s: this can never be told", name, meant(i.own.Nearest(name))), i.under(key...)...)
		}
	}
}
