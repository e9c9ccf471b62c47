package dedupe

import (
	"context"
	"time"
)

// Clock is a Store that can tell its time, by which the instants of its records
// go.
type Clock interface {
	// Now returns the store's time, which may be another than this process's.
	Now(ctx context.Context) (time.Time, error)
}

// Now returns the time of the store, for who compares it with the instants of
// a record; this process's where the store has no clock of its own.
func (d *Dedupe) Now(ctx context.Context) (time.Time, error) {
	if clock, ok := d.store.(Clock); ok {
		return clock.Now(ctx)
	}
	return time.Now(), nil
}

// Journaled reports whether a settlement of the call waits in this process's
// journal: what became of the call is known here, though not yet in the store.
func (d *Dedupe) Journaled(key Key) bool {
	if d.options.Journal == nil {
		return false
	}
	_, waits := d.options.Journal.Find(key)
	return waits
}
