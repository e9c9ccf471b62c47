package assembly

import (
	"maps"
	"slices"

	"github.com/sidecall/sidecall/config"
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
	}
}
