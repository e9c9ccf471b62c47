package dedupe

import (
	"context"
	"time"
)

// Known is what is known of a call that is not to be claimed.
type Known struct {
	// Record is Absent when nothing is known, and Claimed when the call was still
	// running when the time was over.
	Record Record
	// Journaled: the record waits in this process's journal.
	Journaled bool
}

// Known returns what is known of a call whose request is going to be refused: a
// refusal must not deny what has happened. It changes nothing, and takes one
// round trip unless the call is running: then it waits for its end, until ctx or
// Options.MaxWait ends, as long as wait allows it. An error means that nothing
// can be said.
func (d *Dedupe) Known(ctx context.Context, key Key, wait func() bool) (Known, error) {
	known, err := d.look(ctx, key)
	if err != nil || known.Record.State != Claimed || !wait() {
		return known, err
	}
	hints, unwatch := d.watch(key)
	defer unwatch()
	until := time.Now().Add(d.options.MaxWait)
	for pause := pollFirst; time.Now().Before(until); pause = min(2*pause, pollMax) {
		if err := d.life.wait(ctx, jittered(pause, until), hints); err != nil {
			return known, closedOnly(err)
		}
		now, err := d.look(ctx, key)
		if err != nil && ctx.Err() != nil {
			return known, nil // it was running, until there was no time left
		}
		if err != nil || now.Record.State != Claimed {
			return now, err
		}
		known = now
	}
	return known, nil
}

// look asks the journal, which may know better, and then the store.
func (d *Dedupe) look(ctx context.Context, key Key) (Known, error) {
	if d.options.Journal != nil {
		if entry, waits := d.options.Journal.Find(key); waits {
			return Known{Record: entry.Record(), Journaled: true}, nil
		}
	}
	record, err := d.Lookup(ctx, key)
	return Known{Record: record}, err
}
