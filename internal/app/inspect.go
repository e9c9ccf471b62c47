package app

import (
	"maps"
	"slices"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/schema"
)

// inspect finds what compiles and hurts all the same. A start says it too. drafts
// are the input schemas of the declared tools.
func inspect(cfg *config.Config, drafts map[string]schema.Draft, found *problems) {
	if len(cfg.Backends) == 0 {
		found.add(config.RuleUnused, "there is no backend, so there is no tool that could be called: add one under backends")
	}
	inspectStore(cfg, found)
	inspectSockets(cfg, found)
	for _, name := range slices.Sorted(maps.Keys(cfg.Backends)) {
		inspectBackend(name, cfg, found)
		inspectOverrides(name, cfg, drafts, found)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		i := inspection{problems: found, drafts: drafts, effect: cfg.Tools[name].EffectOrDefault(), own: drafts[name], at: []string{"tools", name}}
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
		at := []string{"backends", backend, "tools", name}
		i := inspection{problems: found, drafts: drafts, effect: as.Effect, own: schema.ReadDraft(nil), at: at}
		i.rules(overrides[name].CallRules)
		// What cannot be compiled would else be found when the tool is.
		wrong := func(path []string, err error) { found.addEach(err, slices.Concat(at, path)...) }
		compileProgram(&catalog.Route{}, config.Tool{CallRules: overrides[name].CallRules}, nil, wrong)
		compileApproval(&catalog.Route{}, overrides[name].CallRules, wrong)
	}
}
