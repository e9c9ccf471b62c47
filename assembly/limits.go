package assembly

import (
	"github.com/sidecall/sidecall/catalog"
	"github.com/sidecall/sidecall/config"
)

// profiles are who may call what.
func profiles(cfg *config.Config) catalog.Profiles {
	all := catalog.Profiles{Default: cfg.DefaultProfile, ByName: make(map[string]catalog.Profile)}
	for _, name := range cfg.ProfileNames() {
		if p, ok := cfg.Profile(name); ok {
			all.ByName[name] = catalog.Profile{
				Name: name, Tools: p.Tools,
				MaxCalls: int64(p.MaxToolCalls), MaxTokens: p.MaxTokens, MaxDuration: p.MaxDuration,
			}
		}
	}
	return all
}

// limits hold for every tool.
func limits(cfg *config.Config) catalog.Limits {
	return catalog.Limits{
		KeepOutputBytes:  int64(cfg.Limits.KeepOutputBytes),
		OutputTTL:        cfg.Limits.OutputTTL,
		MaxBatch:         cfg.Limits.MaxBatch,
		BatchParallel:    cfg.Limits.BatchParallel,
		RequireIDs:       cfg.Identity.Require,
		RefuseUnrecorded: cfg.StoreDown.ReadOnly == "refuse",
	}
}
