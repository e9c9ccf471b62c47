package assembly

import (
	"maps"
	"slices"

	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/schema"
)

// inspect finds what compiles and hurts all the same. A start says it too.
func inspect(cfg *config.Config, found *problems) {
	inspectStore(cfg, found)
	drafts := make(map[string]schema.Draft, len(cfg.Tools))
	for name := range cfg.Tools {
		made, _ := cfg.Tool(name)
		drafts[name] = schema.ReadDraft(made.InputSchema)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Backends)) {
		inspectBackend(name, cfg, found)
		inspectOverrides(name, cfg, drafts, found)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		made, _ := cfg.Tool(name)
		i := inspection{problems: found, drafts: drafts, effect: made.Effect, own: drafts[name], at: []string{"tools", name}}
		i.declared(cfg.Tools[name])
		i.rules(cfg.Tools[name].CallRules)
	}
}

// inspectOverrides looks at what is said of tools that a backend discovers.
func inspectOverrides(backend string, cfg *config.Config, drafts map[string]schema.Draft, found *problems) {
	overrides := cfg.Backends[backend].Tools
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		as, ok := cfg.Discovered(backend, name, nil)
		if !ok {
			continue
		}
		i := inspection{problems: found, drafts: drafts, effect: as.Effect, own: schema.ReadDraft(nil), at: []string{"backends", backend, "tools", name}}
		i.rules(overrides[name].CallRules)
	}
}
