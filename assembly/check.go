package assembly

import (
	"context"
	"log/slog"
	"slices"

	"github.com/sidecall/sidecall/config"
)

// Check builds what Start would build of a config, and starts nothing. The
// warnings are of what may be a mistake, of keys that are read but not enforced
// yet, and of what works here and fails at a provider. The error is, as that of
// Start, config.Problems when the config is wrong.
func Check(ctx context.Context, cfg *config.Config) (warnings []config.Problem, err error) {
	warnings = slices.Concat(cfg.Warnings(), cfg.NotEnforced())
	g, err := newGeneration(cfg, surroundings{logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return warnings, err
	}
	return append(warnings, lint(g)...), g.retire(ctx)
}
