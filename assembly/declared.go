package assembly

import (
	"slices"

	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/config"
)

// declaredRoute compiles a tool of the config file for the host that it lives
// on; nil when something is wrong with it, which is then among the problems.
func declaredRoute(h *host, name string, cfg *config.Config, found *problems) *catalog.Route {
	declared := cfg.Tools[name]
	before := len(found.found)
	at := []string{"tools", name}
	if err := h.register(name, declared); err != nil {
		found.add(err, "tools", name, h.config.Kind())
		return nil
	}
	target := name
	if declared.MCP != nil {
		target = declared.MCP.Name
	}
	made, _ := cfg.Tool(name) // it is there: name is from the file
	route := newRoute(h, made, target)
	wrong := func(path []string, err error) { found.addEach(err, slices.Concat(at, path)...) }
	if err := compileSchema(route, nil); err != nil {
		wrong([]string{"input_schema"}, err)
	}
	compileProgram(route, declared, nil, wrong)
	compileVerification(route, declared.CallRules, wrong)
	if len(found.found) > before {
		return nil
	}
	return route
}
