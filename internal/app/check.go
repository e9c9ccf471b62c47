package app

import (
	"context"
	"log/slog"
	"slices"

	"github.com/sidecall/sidecall/internal/config"
)

// CheckOptions say how far Check goes.
type CheckOptions struct {
	// Discover asks the backends that say themselves which tools they have, at
	// most until the context ends. It starts their processes.
	Discover bool
	// Version is what they are told of the sidecar.
	Version string
}

// Check finds everything that is wrong with a config, or may hurt, by position:
// what config.Examine has found already (known), what Start would refuse, what
// compiles and hurts all the same, and what works here and fails at a provider.
// It builds what Start would build and, but for Discover, starts nothing.
func Check(ctx context.Context, cfg *config.Config, known config.Problems, options CheckOptions) []config.Problem {
	heard := newStderrLines()
	around := surroundings{logger: slog.New(heard), version: options.Version}
	found := &problems{config: cfg, known: known}
	g := draw(cfg, around, found)
	lint(cfg, found)
	found.warnings = append(found.warnings, exposed(cfg)...)
	file := cfg.Warnings()
	if options.Discover && len(known) == 0 && len(found.found) == 0 {
		if ask(ctx, g, heard, found) {
			file = cfg.WarningsAmong(g.tools.Snapshot().Names())
			found.warnings = slices.DeleteFunc(found.warnings, func(p config.Problem) bool {
				return p.Rule == config.RuleEffectUnsaid && config.Below(p.Path, "backends")
			})
		}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if err := g.retire(ending); err != nil && options.Discover { // else nothing has begun that could fail to end
		found.add(config.RuleDiscovery, "a backend did not end: "+err.Error())
	}
	all := slices.Concat(known, found.found, file, found.warnings)
	config.SortProblems(all)
	return all
}
