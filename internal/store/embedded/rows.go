package embedded

import (
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

var _ dedupe.Rows = (*txn)(nil)

func (t *txn) Now() time.Time { return t.now }

func (t *txn) Call(key tool.CallID) (stored dedupe.Stored) {
	if value, _ := t.get(recordRow, encodeKey(key)); value != nil {
		var err error
		stored, err = dedupe.DecodeSealed(value)
		t.Fail(err)
	}
	return stored
}

// record reads one that is in the index, and its key; Absent when its time is over.
func (t *txn) record(of digest) (key tool.CallID, stored dedupe.Stored) {
	r := t.index.rows[of]
	if t.failed != nil || r.expires <= t.ms() {
		return key, stored
	}
	f, err := t.read(r.place)
	if err == nil {
		key = decodeKey(f.key)
		stored, err = dedupe.DecodeSealed(f.value)
	}
	t.Fail(err)
	return key, stored
}

func (t *txn) SetCall(key tool.CallID, record *dedupe.Record, retention time.Duration, terms []dedupe.Term) {
	if retention == 0 { // what a step reads is on the disk when it is answered
		return
	}
	stored, name := dedupe.Stored{Record: *record, Retention: retention}, encodeKey(key)
	t.set(recordRow, name, t.now.Add(retention), stored.AppendSealed(nil))
	if len(terms) == 0 || t.failed != nil {
		return
	}
	v := indexed{number: t.file.end + int64(len(t.frames)), claimed: t.ms(), terms: terms}
	outdated := t.supersede(record, name, &v)
	found := frame{kind: indexRow, expires: dedupe.Millis(t.now.Add(dedupe.IndexKeep(retention)))}
	t.Fail(t.add(change{frame: found, outdated: outdated}, name, v.encode()))
}

// Awaited does nothing: there is no other process to tell.
func (*txn) Awaited(tool.CallID) {}

func (t *txn) Value(name dedupe.ValueKey) string {
	body, _ := t.get(name.Kind, valueKey(name))
	return string(body)
}

func (t *txn) SetValue(name dedupe.ValueKey, body string, keep time.Duration) {
	key, expires := valueKey(name), t.now.Add(keep)
	if keep == 0 {
		_, expires = t.get(name.Kind, key)
	}
	t.set(name.Kind, key, expires, []byte(body))
}

// supersede returns the postings of the row that there is of a call. The new one has its terms
// too, so that what they were about is not told as never seen; and its number, if the call was
// not claimed since.
func (t *txn) supersede(record *dedupe.Record, name []byte, v *indexed) (outdated []posting) {
	r, known := t.row(t.index.digest(indexRow, name))
	if !known {
		return nil
	}
	f, err := t.read(r.place)
	if err != nil {
		t.Fail(err)
		return nil
	}
	if before := decodeIndexed(f.value); r.expires > t.ms() {
		v.add(before.terms)
		if dedupe.Millis(record.StartedAt) <= before.claimed {
			v.number, v.claimed = before.number, before.claimed
		}
	}
	return t.index.postings(f)
}

func (t *txn) Append(key tool.CallID, a dedupe.Append, keep time.Duration) {
	name := dedupe.LogKey(key, a.Log)
	t.SetValue(name, string(a.AppendTo([]byte(t.Value(name)))), keep)
}

func (t *txn) Logs(key tool.CallID, names []string, into *dedupe.Logs) {
	*into = nil
	for _, name := range names {
		entries, err := dedupe.DecodeLog([]byte(t.Value(dedupe.LogKey(key, name))))
		t.Fail(err)
		*into = append(*into, entries)
	}
}

// Keep stores an output, unless it is there already. Older ones
// give way to it when it is there.
func (t *txn) Keep(tenant string, kept *dedupe.Output) {
	if size := int64(len(kept.Data)); size > t.index.mostOutputs {
		t.Fail(fmt.Errorf("%w: an output has %d bytes, and all outputs may have %d", dedupe.ErrFull, size, t.index.mostOutputs))
		return
	}
	key := keyOf(tenant, kept.Ref)
	if there, _ := t.get(outputRow, key); there != nil {
		return
	}
	whole := byte(0)
	if kept.Complete {
		whole = 1
	}
	t.set(outputRow, key, t.now.Add(kept.TTL), []byte{whole}, kept.Data)
}
