package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/journal"
	"github.com/sidecall/sidecall/telemetry"
)

// openJournal opens the journal that the config asks for; nil when it asks for
// none.
func openJournal(cfg *config.Config, t *telemetry.Telemetry) (dedupe.Journal, error) {
	if !cfg.Journal.On(cfg.Store.Kind()) {
		return nil, nil
	}
	path, err := filepath.Abs(cfg.Journal.File()) // so that the log says where it is
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	opened, err := journal.Open(path, journal.Options{MaxBytes: int64(cfg.Journal.MaxBytes), Log: t.Logger})
	if err != nil {
		return nil, fmt.Errorf("%w: set journal.path to a file on this machine that this sidecar alone can write, "+
			"or give the journal up with journal: {enabled: false}: results that the store cannot take are lost then", err)
	}
	return opened, nil
}

// observeJournal registers the metrics of the settlements that did not reach
// the store in time.
func (s *sidecar) observeJournal() error {
	t, late := s.telemetry, s.dedupe.Late
	waiting := t.Gauge("sidecall.journal.pending", "Results that wait in the journal for the store.",
		func(report func(int64, string, string)) {
			report(int64(late().Waiting), "sidecall.store", s.config.Store.Kind())
		})
	return errors.Join(waiting,
		t.Counter("sidecall.journal.replayed", "Results that the store has taken from the journal.",
			func() int64 { return late().Replayed }),
		t.Counter("sidecall.journal.forgotten", "Those of them whose calls the store had forgotten.",
			func() int64 { return late().Forgotten }),
		t.Counter("sidecall.journal.superseded", "Results in the journal whose calls were decided otherwise before it was replayed.",
			func() int64 { return late().Superseded }),
		t.Counter("sidecall.journal.lost", "Results that neither the store nor the journal took.",
			func() int64 { return late().Lost }),
		t.Counter("sidecall.journal.damaged", "Damages of the journal's file that were found.",
			func() int64 { return late().Damaged }))
}
