package embedded

import (
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// txn is what package dedupe asks of rows.
var _ dedupe.Rows = (*txn)(nil)

func (t *txn) Now() time.Time { return t.now }

func (t *txn) Call(key tool.CallID) (dedupe.Stored, error) {
	value, _, err := t.get(recordRow, encodeKey(key))
	if err != nil || value == nil {
		return dedupe.Stored{}, err
	}
	return dedupe.DecodeSealed(value)
}

// record reads one that is in the index, and its key; Absent when its time is over.
func (t *txn) record(of digest) (key tool.CallID, stored dedupe.Stored, err error) {
	r := t.index.rows[of]
	if r.expires <= t.ms() {
		return key, stored, nil
	}
	f, err := t.read(r.place)
	if err == nil {
		key = decodeKey(f.key)
		stored, err = dedupe.DecodeSealed(f.value)
	}
	return key, stored, err
}

func (t *txn) SetCall(key tool.CallID, record *dedupe.Record, retention time.Duration) error {
	stored := dedupe.Stored{Record: *record, Retention: retention}
	return t.set(recordRow, encodeKey(key), t.now.Add(retention), stored.AppendSealed(make([]byte, 0, stored.SealedBytes())))
}

// Confirm does nothing: what a step reads is on the disk when it is answered.
func (*txn) Confirm(tool.CallID) {}

// Awaited does nothing: there is no other process to tell.
func (*txn) Awaited(tool.CallID) {}

func (t *txn) Sheet(name dedupe.Sheet) (string, error) {
	body, _, err := t.get(name.Kind, sheetKey(name))
	return string(body), err
}

func (t *txn) SetSheet(name dedupe.Sheet, body string, keep time.Duration) error {
	key, expires := sheetKey(name), t.now.Add(keep)
	if keep == 0 {
		var err error
		if _, expires, err = t.get(name.Kind, key); err != nil {
			return err
		}
	}
	return t.set(name.Kind, key, expires, []byte(body))
}

// Index implements dedupe.Rows.
func (t *txn) Index(key tool.CallID, terms []dedupe.Term, keep time.Duration) error {
	if len(terms) == 0 {
		return nil
	}
	name := encodeKey(key)
	v := indexed{number: t.file.end + int64(len(t.frames)), claimed: t.ms(), terms: terms}
	outdated, err := t.supersede(key, name, &v)
	if err != nil {
		return err
	}
	return t.add(change{frame: frame{kind: indexRow, expires: dedupe.Millis(t.now.Add(keep))}, outdated: outdated}, name, v.encode())
}

// supersede returns the postings of the row that there is of a call. The new one has its terms
// too, so that what they were about is not told as never seen; and its number, if the call was
// not claimed since.
func (t *txn) supersede(key tool.CallID, name []byte, v *indexed) (outdated []posting, err error) {
	r, known := t.row(t.index.digest(indexRow, name))
	if !known {
		return nil, nil
	}
	f, err := t.read(r.place)
	if err != nil {
		return nil, err
	}
	before := decodeIndexed(f.value)
	record, err := t.Call(key)
	if err != nil {
		return nil, err
	}
	if r.expires > t.ms() {
		v.add(before.terms)
		if dedupe.Millis(record.StartedAt) <= before.claimed {
			v.number, v.claimed = before.number, before.claimed
		}
	}
	return t.index.postings(f), nil
}

func (t *txn) Append(key tool.CallID, a dedupe.Append, keep time.Duration) error {
	name := dedupe.Sheet{Tenant: key.Tenant, Conversation: key.Conversation, Kind: logRow, Name: a.Log}
	body, err := t.Sheet(name)
	if err != nil {
		return err
	}
	return t.SetSheet(name, string(a.AppendTo([]byte(body))), keep)
}

func (t *txn) Logs(key tool.CallID, names []string, into *dedupe.Logs) error {
	*into = nil
	for _, name := range names {
		body, err := t.Sheet(dedupe.Sheet{Tenant: key.Tenant, Conversation: key.Conversation, Kind: logRow, Name: name})
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

// Keep stores an output, unless it is there already. Older ones
// give way to it when it is there.
func (t *txn) Keep(tenant string, kept *dedupe.Output) error {
	if size := int64(len(kept.Data)); size > t.options.MaxOutputBytes {
		return fmt.Errorf("%w: an output has %d bytes, and all outputs may have %d", dedupe.ErrFull, size, t.options.MaxOutputBytes)
	}
	key := outputKey(tenant, kept.Ref)
	if there, _, err := t.get(outputRow, key); err != nil || there != nil {
		return err
	}
	whole := byte(0)
	if kept.Complete {
		whole = 1
	}
	return t.set(outputRow, key, t.now.Add(kept.TTL), []byte{whole}, kept.Data)
}
