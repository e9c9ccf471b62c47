package app

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// lint warns of what works here and fails at a provider, or at a model.
func lint(cfg *config.Config, found *problems) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		made, _ := cfg.Tool(name)
		for _, at := range schema.ReadDraft(made.InputSchema).Places(strictUnsupported) {
			found.add(config.RuleStrictMode, fmt.Sprintf("provider strict modes drop %q at %s", path.Base(at), at), "tools", name, "input_schema")
		}
		if made.Description == "" {
			found.add(config.RuleDescription, "no description: the model has to guess from the name what the tool does", "tools", name)
		}
		if t := cfg.Tools[name]; t.HTTP != nil && made.Effect == tool.NonIdempotent && t.RejectsBeforeWork == nil && t.Verify == nil {
			found.add(config.RuleRejections, "a 503 leaves its outcome unknown; where the upstream answers that only before it has done anything, add rejects_before_work: [429, 503]"+
				" (429 counts as that already), else say so with [429]", "tools", name)
		}
	}
}

// strictUnsupported are the JSON Schema keywords that the strict modes of
// providers (OpenAI structured outputs, Anthropic strict tool use) reject or
// ignore. Sidecall enforces them all the same; the model is just not held to
// them while it writes.
var strictUnsupported = []string{
	"allOf", "not", "if", "then", "else", "oneOf",
	"dependentRequired", "dependentSchemas", "patternProperties", "propertyNames",
	"minProperties", "maxProperties", "contains", "minContains", "maxContains",
	"uniqueItems", "unevaluatedProperties", "unevaluatedItems", "minLength", "maxLength",
}
