package app

import (
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/observed"
	"github.com/sidecall/sidecall/internal/rules/loop/guard"
)

// profiles are who may call what, and how much of it.
func profiles(cfg *config.Config, observe *observed.Log, found *problems) catalog.Profiles {
	all := catalog.Profiles{Default: cfg.DefaultProfile, ByName: make(map[string]catalog.Profile)}
	for _, name := range cfg.ProfileNames() {
		p, ok := cfg.Profile(name)
		if !ok {
			continue
		}
		watch, err := loopGuard(p.LoopGuard)
		if err != nil {
			found.add(config.RuleValue, err.Error(), "profiles", name, "loop_guard")
		}
		all.ByName[name] = catalog.Profile{
			Name: name, Tools: p.Tools,
			MaxCalls: int64(p.MaxToolCalls), MaxTokens: p.MaxTokens, MaxDuration: p.MaxDuration,
			AllowTainted: p.AllowSensitive, Guard: watch,
			Untold: p.Recovery.Off(),
		}
		if p.Observes() {
			made := all.ByName[name]
			made.Observe = observe
			all.ByName[name] = made
		}
	}
	return all
}

// loopGuard is the guard of a profile; nil when it is off.
func loopGuard(g config.LoopGuard) (*guard.Guard, error) {
	if g.Off {
		return nil, nil
	}
	return guard.New(guard.Thresholds{
		SameCall: guard.Limit(g.SameCall), Cycle: guard.Limit(g.Cycle),
		SameError: guard.Limit(g.SameError), SameResult: guard.Limit(g.SameResult), Malformed: guard.Limit(g.Malformed),
		DuplicateEffect: guard.Limit(g.DuplicateEffect), DuplicateRead: guard.Limit(g.DuplicateRead),
		AcrossEffects: guard.Limit(g.AcrossEffects), Escalate: g.Escalate, Stop: g.Stop,
	})
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
		KeepArguments:    cfg.KeepArguments == "redacted",
		Taints:           cfg.HasSensitive(),
	}
}
