package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sidecall/sidecall/dedupe"
)

// sweepSlack is how long an expired record stays in the file, unseen. A record
// is queued for expiry when it is claimed and settled a little later, which
// gives it a little more time: with some slack it need not be queued again.
const sweepSlack = time.Minute

// sweepIdle is how much an idle store sweeps in one transaction: little enough
// that a request arriving meanwhile hardly waits.
const sweepIdle = 256

// sweepBytes bounds the outputs, and the conversations, that one sweep removes, beside
// the last of them: more than the calls of a transaction add, and little enough to wait
// for.
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

// expiring is one of the buckets ordered by time, in which each thing that expires has one
// place. That is not moved when it is given more time, but corrected when it is due.
type expiring struct {
	places *bbolt.Bucket
	slack  time.Duration
	find   func(name []byte) (held, error)
}

// held is a thing that expires.
type held struct {
	expires time.Time
	bytes   int64
	remove  func() error
}

func (t *txn) queues() [4]expiring {
	return [...]expiring{
		{t.expiry, sweepSlack, t.heldRecord},
		{t.sheetExpiry, sweepSlack, t.heldSheet},
		{t.conversationExpiry, 0, func(key []byte) (held, error) { return heldDocument(t.conversations, key) }},
		t.expiringOutputs(),
	}
}

func (t *txn) expiringOutputs() expiring { return expiring{t.outputExpiry, 0, t.heldOutput} }

// due returns the first of a queue if its time is over; nil otherwise.
func (t *txn) due(q expiring) (place, name []byte) {
	at, place, name := first(q.places)
	if at.After(t.now.Add(-q.slack)) {
		return nil, nil
	}
	return place, name
}

func (t *txn) anythingDue() bool {
	for _, q := range t.queues() {
		if place, _ := t.due(q); place != nil {
			return true
		}
	}
	return false
}

// sweep removes of each queue at most limit things whose time is over, and no more than
// sweepBytes beside the last of them.
func (d *database) sweep(t *txn, limit int) (err error) {
	defer d.damaged(&err)
	for _, q := range t.queues() {
		removed := int64(0)
		for n := 0; n < limit && removed < sweepBytes; n++ {
			place, name := t.due(q)
			if place == nil {
				break
			}
			size, err := t.expire(q, place, name, t.now)
			if err != nil {
				return err
			}
			removed += size
		}
	}
	return nil
}

// expire takes a place out of a queue. What has it is removed if its time is over at an
// instant, and queued again if not: it was given more time since.
func (t *txn) expire(q expiring, place, name []byte, at time.Time) (removed int64, err error) {
	t.writes++
	// What bbolt returns is only valid until the next change.
	place, name = bytes.Clone(place), bytes.Clone(name)
	if err := q.places.Delete(place); err != nil {
		return 0, err
	}
	h, err := q.find(name)
	switch {
	case err != nil:
		return 0, err
	case h.remove == nil:
		return 0, fmt.Errorf("%w: what is to expire is missing", dedupe.ErrCorrupt)
	case at.Before(h.expires):
		return 0, t.queue(q.places, h.expires, name)
	}
	return h.bytes, h.remove()
}

func (t *txn) heldRecord(id []byte) (held, error) {
	b := t.records.Get(id)
	if b == nil {
		return held{}, nil
	}
	e, err := decodeEntry(id, b)
	return held{expires: e.expires, remove: func() error { return t.remove(e) }}, err
}

func (t *txn) heldSheet(key []byte) (held, error) {
	expires, body, err := t.sheet(key)
	if body == nil {
		return held{}, err
	}
	return held{expires: expires, remove: func() error { return t.sheets.Delete(key) }}, nil
}

func heldDocument(in *bbolt.Bucket, key []byte) (held, error) {
	d, err := openDocument(in, key)
	if d.bucket == nil {
		return held{}, err
	}
	return held{dedupe.Instant(d.expires), d.bytes, func() error { return in.DeleteBucket(key) }}, err
}

func (t *txn) heldOutput(key []byte) (held, error) {
	h, err := heldDocument(t.outputs, key)
	if remove := h.remove; remove != nil {
		h.remove = func() error { return errors.Join(t.addOutputBytes(-h.bytes), remove()) }
	}
	return h, err
}
