package app

import (
	"maps"
	"slices"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
)

// lint warns of what works here and fails at a provider, or at a model.
func lint(cfg *config.Config, found *problems) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		made, _ := cfg.Tool(name)
		for _, dropped := range strictDrops(made.InputSchema) {
			found.add(config.RuleStrictMode, "provider strict modes drop "+dropped, "tools", name, "input_schema")
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
