package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sidecall/sidecall/dedupe"
)

// The buckets of the file.
var (
	// metaBucket holds what there is one of.
	metaBucket = []byte("meta")
	// recordsBucket: id, counting up → entry. The index finds the id of a key.
	recordsBucket = []byte("records")
	// resultsBucket: id of the record → result. Apart from the records, so that
	// many of those fit on a page.
	resultsBucket = []byte("results")
	// claimsBucket: id of a claimed record → nothing. What Open has to decide.
	claimsBucket = []byte("claims")
	// expiryBucket: when, and a number → id. Exactly one per record.
	expiryBucket = []byte("expiry")
	// outputsBucket: tenant and ref → bucket of one output.
	outputsBucket = []byte("outputs")
	// outputExpiryBucket: when, and a number → key of an output. Exactly one per output.
	outputExpiryBucket = []byte("output_expiry")
	// sheetsBucket: tenant, conversation, kind and name → sheet.
	sheetsBucket = []byte("sheets")
	// sheetExpiryBucket: when, and a number → key of a sheet. Exactly one per sheet.
	sheetExpiryBucket = []byte("sheet_expiry")

	// conversationsBucket: tenant and id → bucket of one conversation.
	conversationsBucket = []byte("conversations")
	// conversationExpiryBucket: when, and a number → key of a conversation. Exactly
	// one per conversation.
	conversationExpiryBucket = []byte("conversation_expiry")

	topBuckets = [][]byte{
		metaBucket, recordsBucket, resultsBucket, claimsBucket, expiryBucket, outputsBucket, outputExpiryBucket,
		sheetsBucket, sheetExpiryBucket, conversationsBucket, conversationExpiryBucket,
	}
)

// format names the layout of the file. Another layout gets another name.
const format = "sidecall records 2"

// The keys of the meta bucket.
var (
	formatKey      = []byte("format")
	clockKey       = []byte("clock")
	outputBytesKey = []byte("output_bytes")
)

// fullPages is how full pages are made whose keys come in order: there is no need
// to leave much room for more between them.
const fullPages = 0.9

// txn is one transaction at one instant of the store's clock.
type txn struct {
	tx  *bbolt.Tx
	now time.Time
	// writes counts the changes made in it.
	writes int
	// index is the one of the committed state, moved what this transaction
	// changes of it.
	index *index
	moved changes
	// bound is Options.MaxOutputBytes.
	bound int64

	meta, records, results, claims, expiry, outputs, outputExpiry, sheets, sheetExpiry *bbolt.Bucket
	conversations, conversationExpiry                                                  *bbolt.Bucket
}

func newTxn(tx *bbolt.Tx, d *database) *txn {
	return &txn{
		tx: tx, now: d.clock.now(), bound: d.options.MaxOutputBytes, index: d.index,
		meta: tx.Bucket(metaBucket), records: tx.Bucket(recordsBucket), results: tx.Bucket(resultsBucket),
		claims: tx.Bucket(claimsBucket), expiry: tx.Bucket(expiryBucket),
		outputs: tx.Bucket(outputsBucket), outputExpiry: tx.Bucket(outputExpiryBucket),
		sheets: tx.Bucket(sheetsBucket), sheetExpiry: tx.Bucket(sheetExpiryBucket),
		conversations: tx.Bucket(conversationsBucket), conversationExpiry: tx.Bucket(conversationExpiryBucket),
	}
}

// view runs f on the last committed state. durable is false when that state is
// committed but not yet known to be on the disk; what f found is then not to be
// told to anybody.
func (d *database) view(f func(*txn) error) (durable bool, err error) {
	defer d.damaged(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := d.beginRead()
	if err != nil {
		return false, closedError(err)
	}
	defer func() { err = errors.Join(err, d.endRead(tx)) }()
	durable = int64(tx.ID()) <= d.durable.Load()
	return durable, f(newTxn(tx, d))
}

func closedError(err error) error {
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return dedupe.ErrClosed
	}
	return err
}

// find returns the entry of a key as of now, without its result. A forgotten
// record is Absent, though it still has its place.
func (t *txn) find(key []byte) (entry, error) {
	d := t.index.digest(key)
	id, moved := t.moved[d]
	if !moved {
		id = t.index.find(d)
	}
	if id == 0 {
		return entry{key: key}, nil
	}
	place := bigEndian(id)
	b := t.records.Get(place)
	switch {
	case b != nil:
	case t.tx.Writable():
		return entry{}, fmt.Errorf("%w: the record of a call is missing", dedupe.ErrCorrupt)
	default:
		// Committed after this transaction began to look, or swept since: a
		// moment ago, or now, there is none.
		return entry{key: key}, nil
	}
	e, err := decodeEntry(place, b)
	if err != nil {
		return entry{}, err
	}
	if !bytes.Equal(e.key, key) {
		return entry{}, fmt.Errorf("%w: the record found for a call is another's", dedupe.ErrCorrupt)
	}
	if !t.now.Before(e.expires) {
		return entry{Stored: dedupe.Stored{Mark: e.Mark}, id: id, key: key}, nil
	}
	return e, nil
}

// loadResult fetches the result that belongs to an entry.
func (t *txn) loadResult(e *entry) error {
	if !e.Mark || e.State == dedupe.Absent {
		return nil
	}
	place := bigEndian(e.id)
	b := t.results.Get(place)
	if b == nil {
		return fmt.Errorf("%w: the result of a call is missing", dedupe.ErrCorrupt)
	}
	result, err := verified(place, b)
	if err != nil {
		return err
	}
	e.Result = bytes.Clone(result)
	return nil
}

// put stores what a record has become, in place of old.
func (t *txn) put(old entry, next dedupe.Record, retention time.Duration) error {
	t.writes++
	e := entry{
		Stored: dedupe.Stored{Record: next, Mark: len(next.Result) > 0, Retention: retention},
		id:     old.id, key: old.key, expires: t.now.Add(retention),
	}
	if old.id == 0 {
		id, err := t.records.NextSequence()
		if err != nil {
			return err
		}
		e.id = id
		if err := t.queue(t.expiry, e.expires, bigEndian(id)); err != nil {
			return err
		}
		t.moveTo(e.key, id)
	} // else its place in the expiry bucket is corrected when it is due
	place := bigEndian(e.id)
	if err := t.replaceResult(place, old.Mark, next.Result); err != nil {
		return err
	}
	t.records.FillPercent = fullPages
	if err := t.records.Put(place, encodeEntry(e)); err != nil {
		return err
	}
	return t.noteClaim(place, old.State, next.State)
}

// remove takes a record out of the file.
func (t *txn) remove(e entry) error {
	t.writes++
	place := bigEndian(e.id)
	if e.Mark {
		if err := t.results.Delete(place); err != nil {
			return err
		}
	}
	if err := t.claims.Delete(place); err != nil {
		return err
	}
	t.moveTo(e.key, 0)
	return t.records.Delete(place)
}

// moveTo notes that a key has another place from now on.
func (t *txn) moveTo(key []byte, id uint64) {
	if t.moved == nil {
		t.moved = changes{}
	}
	t.moved[t.index.digest(key)] = id
}

// replaceResult stores the result of a record, if it has one, for the one that
// it may have had.
func (t *txn) replaceResult(place []byte, had bool, result []byte) error {
	if len(result) > 0 {
		t.results.FillPercent = fullPages
		return t.results.Put(place, sealed(place, result))
	}
	if had {
		return t.results.Delete(place)
	}
	return nil
}

// noteClaim keeps the claims bucket equal to the set of claimed records.
func (t *txn) noteClaim(place []byte, from, to dedupe.State) error {
	switch {
	case to == dedupe.Claimed:
		return t.claims.Put(place, nil)
	case from == dedupe.Claimed, from == dedupe.Absent: // what was forgotten may have been claimed
		return t.claims.Delete(place)
	default:
		return nil
	}
}

// queue adds a value to a bucket ordered by time.
func (t *txn) queue(bucket *bbolt.Bucket, at time.Time, value []byte) error {
	n, err := bucket.NextSequence()
	if err != nil {
		return err
	}
	bucket.FillPercent = fullPages
	return bucket.Put(append(bigEndian(uint64(dedupe.Millis(at))), bigEndian(n)...), value)
}

// first returns the first place of a bucket ordered by time, with its time and value; nil
// when there is none.
func first(bucket *bbolt.Bucket) (at time.Time, place, value []byte) {
	if place, value = bucket.Cursor().First(); len(place) < 8 {
		return time.Time{}, nil, nil
	}
	return dedupe.Instant(int64(binary.BigEndian.Uint64(place))), place, value
}

// number and setNumber keep a number in the meta bucket.
func (t *txn) number(key []byte) (int64, error) {
	b, err := verified(key, t.meta.Get(key))
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: %s is no number", dedupe.ErrCorrupt, key)
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

func (t *txn) setNumber(key []byte, n int64) error {
	return t.meta.Put(key, sealed(key, bigEndian(uint64(n))))
}
