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
	// Logs and Tally are those that the note asks for; not of a journaled call.
	Logs  Logs
	Tally Tally
}

// Known returns what is known of a call whose request is going to be refused: a
// refusal must not deny what has happened. It takes one round trip and never waits:
// of a call that is running it says Claimed, and Await waits for its end. Nothing is
// changed but the logs of the note, when the refusal stands. An error means that
// nothing can be said.
func (d *Dedupe) Known(ctx context.Context, n Note) (Known, error) {
	// The journal may know better than the store.
	if record, waits := d.courier.record(n.Key); waits {
		return Known{Record: record, Journaled: true}, nil
	}
	if len(n.Appends)+len(n.Logs) == 0 && n.Counter == "" {
		record, err := d.Lookup(ctx, n.Key)
		return Known{Record: record}, err
	}
	n.Retention = d.options.Retention
	noted, err := d.store.Note(ctx, n)
	d.courier.heard(err)
	if err != nil {
		record, waits := d.courier.record(n.Key) // since
		if waits {
			err = nil
		}
		return Known{Record: record}, err
	}
	record, err := d.ofPredecessor(ctx, noted.Record)
	return Known{Record: record, Logs: noted.Logs, Tally: noted.Tally}, err
}

// Await waits, after Known has said that a call is Claimed, for its end, until ctx or
// Options.MaxWait ends: then it is still Claimed. Logs and Tally are those that Known
// has told.
func (d *Dedupe) Await(ctx context.Context, key Key, known Known) (Known, error) {
	hints, unwatch := d.watch(key)
	defer unwatch()
	until := time.Now().Add(d.options.MaxWait)
	for pause := pollFirst; time.Now().Before(until); pause = min(2*pause, pollMax) {
		if err := d.life.wait(ctx, jittered(pause, until), hints); err != nil {
			return known, closedOnly(err)
		}
		now, err := d.Known(ctx, Note{Key: key})
		if err != nil && ctx.Err() != nil {
			return known, nil // it was running, until there was no time left
		}
		if err != nil || now.Record.State != Claimed {
			now.Logs, now.Tally = known.Logs, known.Tally
			return now, err
		}
		known.Record = now.Record
	}
	return known, nil
}
