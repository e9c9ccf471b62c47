package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// sweepSlack is how long an expired record stays in the file, unseen. A record
// is queued for expiry when it is claimed and settled a little later, which
// gives it a little more time: with some slack it need not be queued again.
const sweepSlack = time.Minute

// sweepIdle is how much an idle store sweeps in one transaction: little enough
// that a request arriving meanwhile hardly waits.
const sweepIdle = 256

// sweepBytes bounds the outputs that one sweep removes, beside the last of them:
// more than the calls of a transaction add, and little enough to wait for.
const sweepBytes = 2 * groupBytes

// sweepOnce sweeps in a transaction of its own; swept says that there may be
// more.
func (d *database) sweepOnce() (swept bool, err error) {
	defer d.damaged(&err)
	if durable, err := d.view(func(t *txn) error { swept = t.anythingDue(); return nil }); !durable || err != nil || !swept {
		return false, err
	}
	t, err := d.beginWrite()
	if err != nil {
		return false, err
	}
	if err := d.sweep(t, sweepIdle); err != nil {
		return false, errors.Join(d.fail(err), d.rollback(t.tx))
	}
	return true, d.finishTx(t)
}

func (t *txn) anythingDue() bool {
	record, _ := due(t.expiry, t.now.Add(-sweepSlack))
	output, _ := due(t.outputExpiry, t.now)
	sheet, _ := due(t.sheetExpiry, t.now.Add(-sweepSlack))
	conversation, _ := due(t.conversationExpiry, t.now)
	return record != nil || output != nil || sheet != nil || conversation != nil
}

// sweep removes at most limit records, limit sheets, limit conversations and limit
// outputs whose time is over.
func (d *database) sweep(t *txn, limit int) (err error) {
	defer d.damaged(&err)
	for range limit {
		more, err := t.sweepRecord()
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if err := t.sweepSheets(limit); err != nil {
		return err
	}
	if err := t.sweepConversations(limit); err != nil {
		return err
	}
	return t.sweepOutputs(limit)
}

// sweepOutputs removes at most limit outputs whose time is over.
func (t *txn) sweepOutputs(limit int) error {
	before, err := t.number(outputBytesKey)
	if err != nil {
		return err
	}
	for range limit {
		place, value := due(t.outputExpiry, t.now)
		if place == nil {
			return nil
		}
		if err := t.dropOutput(place, value); err != nil {
			return err
		}
		if left, err := t.number(outputBytesKey); err != nil || before-left >= sweepBytes {
			return err
		}
	}
	return nil
}

// sweepRecord handles the first place in the queue whose time is over: its
// record is removed, or queued again if it was given more time since.
func (t *txn) sweepRecord() (more bool, err error) {
	place, value := due(t.expiry, t.now.Add(-sweepSlack))
	if place == nil {
		return false, nil
	}
	// What bbolt returns is only valid until the next change.
	place, id := bytes.Clone(place), bytes.Clone(value)
	t.writes++
	if err := t.expiry.Delete(place); err != nil {
		return false, err
	}
	b := t.records.Get(id)
	if b == nil {
		return false, fmt.Errorf("%w: a record that is to expire is missing", dedupe.ErrCorrupt)
	}
	e, err := decodeEntry(id, b)
	if err != nil {
		return false, err
	}
	if t.now.Before(e.expires) {
		return true, t.queue(t.expiry, e.expires, id)
	}
	return true, t.remove(e)
}
