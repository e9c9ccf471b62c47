package embedded

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// txn is what package dedupe asks of rows.
var _ dedupe.Rows = (*txn)(nil)

// Now implements dedupe.Rows.
func (t *txn) Now() time.Time { return t.now }

// Call implements dedupe.Rows.
func (t *txn) Call(key dedupe.Key) (dedupe.Stored, error) {
	e, err := t.find(encodeKey(key))
	if err == nil {
		err = t.loadResult(&e)
	}
	return e.Stored, err
}

// SetCall implements dedupe.Rows.
func (t *txn) SetCall(key dedupe.Key, record *dedupe.Record, retention time.Duration) error {
	old, err := t.find(encodeKey(key))
	if err != nil {
		return err
	}
	return t.put(old, *record, retention)
}

// Confirm implements dedupe.Rows: what a step reads is on the disk when it is answered.
func (*txn) Confirm(dedupe.Key) {}

// Awaited implements dedupe.Rows: there is no other process to tell.
func (*txn) Awaited(dedupe.Key) {}

// logSheet is the kind of a sheet that is a log.
const logSheet = 'l'

// sheetKey is the key of a sheet. Those of a conversation are neighbours.
func sheetKey(name dedupe.Sheet) []byte {
	return appendComponents(nil, name.Tenant, name.Conversation, string(name.Kind), name.Name)
}

// sheet returns a sheet and when it expires, be that over; a nil body when there is none.
// Its value in the file is both in this order.
func (t *txn) sheet(key []byte) (expires time.Time, body []byte, err error) {
	b := t.sheets.Get(key)
	if b == nil {
		return time.Time{}, nil, nil
	}
	return decodeSheet(key, b)
}

func decodeSheet(key, b []byte) (expires time.Time, body []byte, err error) {
	value, err := verified(key, b)
	if err != nil {
		return time.Time{}, nil, fmt.Errorf("%w: a sheet of a conversation", err)
	}
	if len(value) < 8 {
		return time.Time{}, nil, fmt.Errorf("%w: a sheet of a conversation is cut short", dedupe.ErrCorrupt)
	}
	return dedupe.Instant(int64(binary.BigEndian.Uint64(value))), value[8:], nil
}

// Sheet implements dedupe.Rows.
func (t *txn) Sheet(name dedupe.Sheet) (string, error) {
	expires, body, err := t.sheet(sheetKey(name))
	if err != nil || !t.now.Before(expires) {
		return "", err
	}
	return string(body), nil
}

// SetSheet implements dedupe.Rows. Its place in the queue of those to expire is corrected
// when it is due.
func (t *txn) SetSheet(name dedupe.Sheet, body string, keep time.Duration) error {
	key := sheetKey(name)
	expires, old, err := t.sheet(key)
	if err != nil {
		return err
	}
	t.writes++
	if keep > 0 {
		expires = t.now.Add(keep)
	}
	if old == nil {
		if err := t.queue(t.sheetExpiry, expires, key); err != nil {
			return err
		}
	}
	return t.sheets.Put(key, sealed(key, append(bigEndian(uint64(dedupe.Millis(expires))), body...)))
}

// Append implements dedupe.Rows.
func (t *txn) Append(key dedupe.Key, a dedupe.Append, keep time.Duration) error {
	name := dedupe.Sheet{Tenant: key.Tenant, Conversation: key.Conversation, Kind: logSheet, Name: a.Log}
	body, err := t.Sheet(name)
	if err != nil {
		return err
	}
	return t.SetSheet(name, string(a.AppendTo([]byte(body))), keep)
}

// Logs implements dedupe.Rows.
func (t *txn) Logs(key dedupe.Key, names []string, into *dedupe.Logs) error {
	*into = nil
	for _, name := range names {
		body, err := t.Sheet(dedupe.Sheet{Tenant: key.Tenant, Conversation: key.Conversation, Kind: logSheet, Name: name})
		if err != nil {
			return err
		}
		entries, err := dedupe.DecodeLog([]byte(body))
		if err != nil {
			return err
		}
		*into = append(*into, entries)
	}
	return nil
}
