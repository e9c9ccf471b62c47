package embedded

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"

	"github.com/sidecall/sidecall/dedupe"
)

// listBatch is how many records one page of a listing looks at.
const listBatch = 2000

// ListUnknown implements dedupe.Store. A page goes on after the place of the last
// record that the one before has looked at.
func (s *Store) ListUnknown(ctx context.Context, from string) (dedupe.Page, error) {
	after, err := hex.DecodeString(from)
	if err != nil || len(after) != 0 && len(after) != 8 {
		return dedupe.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	return read(ctx, s, func(t *txn) (dedupe.Page, error) { return t.listUnknown(after) })
}

// listUnknown looks at the records after a place.
func (t *txn) listUnknown(after []byte) (dedupe.Page, error) {
	var page dedupe.Page
	c := t.records.Cursor()
	place, value := c.Seek(after)
	if len(after) > 0 && bytes.Equal(place, after) {
		place, value = c.Next()
	}
	for looked := 1; place != nil; place, value = c.Next() {
		e, err := decodeEntry(place, value)
		if err != nil {
			return dedupe.Page{}, err
		}
		if err := t.list(&page, e); err != nil {
			return dedupe.Page{}, err
		}
		if looked++; looked > listBatch {
			page.Next = hex.EncodeToString(place)
			break
		}
	}
	return page, nil
}

// list adds an entry to a page if it is of an unknown call.
func (t *txn) list(page *dedupe.Page, e entry) error {
	if !t.now.Before(e.expires) || e.Observed(t.now).State != dedupe.Unknown {
		return nil
	}
	key, err := decodeKey(e.key)
	if err != nil {
		return err
	}
	if err := t.loadResult(&e); err != nil {
		return err
	}
	page.Calls = append(page.Calls, dedupe.Listed{Key: key, Record: e.Observed(t.now)})
	return nil
}

// decodeKey reads what encodeKey has written.
func decodeKey(b []byte) (dedupe.Key, error) {
	var k dedupe.Key
	for _, component := range [...]*string{&k.Tenant, &k.Conversation, &k.Turn, &k.ID} {
		end := bytes.Index(b, []byte{0, 1})
		if end < 0 {
			return dedupe.Key{}, fmt.Errorf("%w: the key of a record is cut short", dedupe.ErrCorrupt)
		}
		*component = string(bytes.ReplaceAll(b[:end], []byte{0, 0xFF}, []byte{0}))
		b = b[end+2:]
	}
	if len(b) > 0 {
		return dedupe.Key{}, fmt.Errorf("%w: the key of a record has %d bytes too many", dedupe.ErrCorrupt, len(b))
	}
	return k, nil
}
