package assembly

import "github.com/sidecall/sidecall/config"

// lint warns of what works here and fails at a provider.
func lint(g *generation) []config.Problem {
	var warnings []config.Problem
	warn := func(message string, path ...string) {
		p := g.config.Where(path...)
		p.Message = message
		warnings = append(warnings, p)
	}
	for _, route := range g.declared {
		for _, dropped := range strictDrops(route.Tool.InputSchema) {
			warn("provider strict modes drop "+dropped, "tools", route.Tool.Name, "input_schema")
		}
		if route.Tool.Description == "" {
			warn("no description: the model has to guess from the name what the tool does", "tools", route.Tool.Name)
		}
	}
	return warnings
}
