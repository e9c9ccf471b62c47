package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sidecall/sidecall/dedupe"
)

// The buckets of the file.
var (
	// metaBucket holds what there is one of.
	metaBucket = []byte("meta")
	// recordsBucket: key → entry.
	recordsBucket = []byte("records")
	// resultsBucket: id, counting up → result. Apart from the records, so that
	// many of those fit on a page, and in order, so that new ones are appended.
	resultsBucket = []byte("results")
	// claimsBucket: key of a claimed record → nothing. What Open has to decide.
	claimsBucket = []byte("claims")
	// expiryBucket: when, and a number → key. Exactly one per record.
	expiryBucket = []byte("expiry")
	// outputsBucket: tenant and ref → bucket of one output.
	outputsBucket = []byte("outputs")
	// outputExpiryBucket: when, and a number → size and key of an output.
	outputExpiryBucket = []byte("output_expiry")

	topBuckets = [][]byte{
		metaBucket, recordsBucket, resultsBucket, claimsBucket, expiryBucket, outputsBucket, outputExpiryBucket,
	}
)

// The keys of the meta bucket.
var (
	formatKey      = []byte("format")
	clockKey       = []byte("clock")
	outputBytesKey = []byte("output_bytes")
)

// fullPages is how full pages are made on which keys are only ever appended.
const fullPages = 0.95

// txn is one transaction at one instant of the store's clock.
type txn struct {
	tx  *bbolt.Tx
	now time.Time
	// writes counts the changes made in it.
	writes int
	// bound is Options.MaxOutputBytes.
	bound int64

	meta, records, results, claims, expiry, outputs, outputExpiry *bbolt.Bucket
}

func newTxn(tx *bbolt.Tx, s *Store) *txn {
	return &txn{
		tx: tx, now: s.clock.now(), bound: s.options.MaxOutputBytes,
		meta: tx.Bucket(metaBucket), records: tx.Bucket(recordsBucket), results: tx.Bucket(resultsBucket),
		claims: tx.Bucket(claimsBucket), expiry: tx.Bucket(expiryBucket),
		outputs: tx.Bucket(outputsBucket), outputExpiry: tx.Bucket(outputExpiryBucket),
	}
}

// view runs f on the last committed state. durable is false when that state is
// committed but not yet known to be on the disk; what f found is then not to be
// told to anybody.
func (s *Store) view(f func(*txn) error) (durable bool, err error) {
	defer damaged(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := s.db.Begin(false)
	if err != nil {
		return false, closedError(err)
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	durable = int64(tx.ID()) <= s.durable.Load()
	return durable, f(newTxn(tx, s))
}

// damaged turns a panic of the engine, or a page that cannot be read, into an
// error: it has met a file that is not as it left it.
func damaged(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", dedupe.ErrCorrupt, p)
	}
}

func closedError(err error) error {
	if errors.Is(err, bbolt.ErrDatabaseNotOpen) {
		return dedupe.ErrClosed
	}
	return err
}

// find returns the entry of a key as of now, without its result. A forgotten
// record is Absent, though still stored.
func (t *txn) find(key []byte) (entry, error) {
	b := t.records.Get(key)
	if b == nil {
		return entry{}, nil
	}
	e, err := decodeEntry(key, b)
	if err != nil {
		return entry{}, err
	}
	if !t.now.Before(e.expires) {
		return entry{stored: true, resultID: e.resultID}, nil
	}
	return e, nil
}

// loadResult fetches the result that belongs to an entry.
func (t *txn) loadResult(e *entry) error {
	if e.resultID == 0 || e.State == dedupe.Absent {
		return nil
	}
	id := bigEndian(e.resultID)
	b := t.results.Get(id)
	if b == nil {
		return fmt.Errorf("%w: the result of a call is missing", dedupe.ErrCorrupt)
	}
	result, err := verified(id, b)
	if err != nil {
		return err
	}
	e.Result = bytes.Clone(result)
	return nil
}

// put stores what a record has become, in place of old.
func (t *txn) put(key []byte, old, next entry) error {
	t.writes++
	next.expires = t.now.Add(next.retention)
	if err := t.replaceResult(old, &next); err != nil {
		return err
	}
	if err := t.records.Put(key, encodeEntry(key, next)); err != nil {
		return err
	}
	if err := t.noteClaim(key, old.State, next.State); err != nil {
		return err
	}
	if old.stored {
		return nil // its place in the expiry bucket is corrected when it is due
	}
	return t.queue(t.expiry, next.expires, key)
}

// replaceResult stores the result of next, if it has one, for that of old.
func (t *txn) replaceResult(old entry, next *entry) error {
	if old.resultID != 0 {
		if err := t.results.Delete(bigEndian(old.resultID)); err != nil {
			return err
		}
	}
	next.resultID = 0
	if len(next.Result) == 0 {
		return nil
	}
	id, err := t.results.NextSequence()
	if err != nil {
		return err
	}
	next.resultID = id
	// Ids count up: fill the pages rather than leave room on them.
	t.results.FillPercent = fullPages
	return t.results.Put(bigEndian(id), sealed(bigEndian(id), next.Result))
}

// noteClaim keeps the claims bucket equal to the set of claimed records.
func (t *txn) noteClaim(key []byte, from, to dedupe.State) error {
	switch {
	case to == dedupe.Claimed && from != dedupe.Claimed:
		return t.claims.Put(key, nil)
	case to != dedupe.Claimed && from == dedupe.Claimed:
		return t.claims.Delete(key)
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
	return bucket.Put(append(bigEndian(uint64(millis(at))), bigEndian(n)...), value)
}

// due returns the first value of a bucket ordered by time if its time is over
// at an instant; nil otherwise.
func due(bucket *bbolt.Bucket, at time.Time) (place, value []byte) {
	place, value = bucket.Cursor().First()
	if place == nil || len(place) < 8 || instant(int64(binary.BigEndian.Uint64(place))).After(at) {
		return nil, nil
	}
	return place, value
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
