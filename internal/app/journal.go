package app

import (
	"fmt"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/store/journal"
	"github.com/sidecall/sidecall/internal/telemetry"
)

// openJournal opens the journal that the config asks for; nil when it asks for
// none.
func openJournal(cfg *config.Config, t *telemetry.Telemetry) (dedupe.Journal, error) {
	if !cfg.Journal.On(cfg.Store.Kind()) {
		return nil, nil
	}
	opened, err := journal.Open(cfg.JournalPath(), t.Logger)
	if err != nil {
		return nil, fmt.Errorf("%w: set journal.path to a directory for this sidecar alone, which it makes in one that it can write, "+
			"or give the journal up with journal: {enabled: false}: results that the store cannot take are lost then", err)
	}
	return opened, nil
}
