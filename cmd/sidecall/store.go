package main

import (
	"context"

	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/memory"
	"github.com/sidecall/sidecall/telemetry"
)

// openStore opens the store that the config names.
func openStore(ctx context.Context, cfg *config.Config, t *telemetry.Telemetry) (dedupe.Store, error) {
	switch cfg.Store.Kind() {
	case "memory":
		t.Logger.Warn("store", "warning", memory.Warning)
		return memory.New(memory.Options{}), nil
	default:
		return nil, ctx.Err()
	}
}
