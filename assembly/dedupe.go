package assembly

import (
	"errors"
	"fmt"
	"os"

	"github.com/sidecall/sidecall/config"
	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/telemetry"
)

// openDedupe opens the store and the journal and what keeps the records of calls
// in them. Closing it closes them.
func openDedupe(cfg *config.Config, t *telemetry.Telemetry) (*dedupe.Dedupe, error) {
	store, err := openStore(cfg, t)
	if err != nil {
		return nil, err
	}
	journal, err := openJournal(cfg, t)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return dedupe.New(store, dedupe.Options{
		Journal: journal, LateBytes: lateBytes(cfg), Log: t.Logger,
		Lease: cfg.Lease, Retention: cfg.Retention, Incarnation: incarnation(),
	}), nil
}

// maxLateBytes is what may wait in memory for a disk that stands still.
const maxLateBytes = 16 << 20

// lateBytes is for the store that has no journal unless a second disk is there
// for one. Who has switched the journal of another store off is taken at his word.
func lateBytes(cfg *config.Config) int64 {
	if cfg.Store.Kind() == "embedded" {
		return maxLateBytes
	}
	return 0
}

// incarnation names this process in the records it owns.
func incarnation() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
