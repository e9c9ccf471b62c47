package dedupe

import (
	"cmp"
	"context"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Note is a look at the record of a call, and at once, where that is refused before anything was
// claimed, what the loop around it has to remember of it.
type Note struct {
	Key tool.CallID
	// Appends are made when the call is Absent, NotRun or Held: the refusal then stands.
	Appends   []Append
	Logs      []string      // to return
	Counter   string        // of the tally to return; empty for none
	Retention time.Duration // of the logs, where there are Appends
	// Receipts says that those of the conversation are to be returned: their head, and lines down
	// from one on; from the last for 0. At most ChainPage.
	Receipts bool
	From     int64
}

// Validate reports what a store cannot accept; the error wraps ErrInvalid.
func (n *Note) Validate() error {
	least := time.Duration(0)
	if len(n.Appends) > 0 {
		least = time.Millisecond
	}
	return cmp.Or(
		validKey(&n.Key),
		holds(&n.Key, n.Counter != "" || n.Receipts || len(n.Logs)+len(n.Appends) > 0),
		between("bytes of the name of a counter", len(n.Counter), 0, MaxCounterBytes),
		between("a retention", n.Retention, least, longest),
		validateLogs(n.Logs),
		validateAppends(n.Appends))
}

// Known is what is known of a call that is not to be claimed.
type Known struct {
	Record    Record    // Absent when nothing is known
	Now       time.Time // the store's, when it was asked
	Journaled bool      // the record waits in this process's journal; no store says so
	Logs      Logs      // that the note asks for, not of a journaled call; likewise Tally
	Tally     Tally
	Chain     Chain  // likewise
	stored    Stored // what the store holds
}

// known says what is known of a call, by all who may know: the journal, which may know better than
// the store; the store; and this process, which knows that its predecessor is gone, so that the
// lease of its claim is out.
func (d *Dedupe) known(ctx context.Context, key tool.CallID, ask func() (Known, error)) (known Known, err error) {
	if record, waits := d.outbox.record(ctx, key); waits {
		return Known{Record: record, Journaled: true}, nil
	}
	known, err = ask()
	d.outbox.heard(err)
	if record, waits := d.outbox.record(ctx, key); err != nil && waits { // since
		return Known{Record: record, Journaled: true}, nil
	}
	if err == nil {
		err = d.outlived(&known.Record, func() (time.Time, error) { return d.Now(ctx) })
	}
	return known, err
}

// outlived makes of the record of a claim what it is once its owner is gone, if this process knows that.
func (d *Dedupe) outlived(r *Record, now func() (time.Time, error)) (err error) {
	if r.State == Claimed && d.fence.succeeds(r.Owner) {
		r.LeaseUntil, err = now()
		*r = r.Observed(r.LeaseUntil)
	}
	return err
}

// Lookup returns the record of a call, as Known tells it.
func (d *Dedupe) Lookup(ctx context.Context, key tool.CallID) (Record, error) {
	known, err := d.Known(ctx, Note{Key: key})
	return known.Record, err
}

// Told is what was seen in the store, as this process tells it.
func (d *Dedupe) Told(ctx context.Context, key tool.CallID, seen Known) (Known, error) {
	return d.known(ctx, key, func() (Known, error) { return seen, nil })
}

// Known returns what is known of a call whose request is going to be refused: a refusal must not
// deny what has happened. It takes one round trip and never waits. Nothing is changed but the logs
// of the note, when the refusal stands.
func (d *Dedupe) Known(ctx context.Context, n Note) (Known, error) {
	n.Retention = d.options.Retention
	return d.known(ctx, n.Key, func() (Known, error) { return d.fence.Note(ctx, n) })
}

// Await waits, after Known has said that a call is Claimed, for its end, until ctx or
// maxWait is over: then it is still Claimed.
func (d *Dedupe) Await(ctx context.Context, key tool.CallID, known Known) (Known, error) {
	within, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	var failure error
	err := d.poll(within, key, func() bool {
		now, err := d.Known(ctx, Note{Key: key})
		if err != nil && ctx.Err() != nil {
			return true // it was running, until there was no time left
		}
		known.Record, known.Journaled, failure = now.Record, now.Journaled, err
		return err != nil || now.Record.State != Claimed
	})
	return known, cmp.Or(err, failure)
}
