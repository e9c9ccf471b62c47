package embedded

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/sidecall/sidecall/dedupe"
)

// listBatch is how many records, or conversations, one page of a listing looks at.
const listBatch = 2000

// ListUnknown implements dedupe.Store. A page goes on after the number of the last
// record that the one before has looked at.
func (s *Store) ListUnknown(ctx context.Context, from string) (dedupe.Page, error) {
	after, err := strconv.ParseInt(cmp.Or(from, "0"), 10, 64)
	if err != nil {
		return dedupe.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	return read(ctx, s, func(t *txn) (dedupe.Page, error) { return t.listUnknown(after) })
}

// numbered is an undecided record, with its number.
type numbered struct {
	number int64
	row    row
}

// open returns the undecided records after a number, in order, as many as make a batch.
func (t *txn) open(after int64) (batch []numbered, more bool) {
	for of, number := range t.index.undecided {
		if number > after {
			batch = append(batch, numbered{number, t.index.rows[of]})
		}
	}
	slices.SortFunc(batch, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	more = len(batch) > listBatch
	return batch[:min(len(batch), listBatch)], more
}

func (t *txn) listUnknown(after int64) (page dedupe.Page, err error) {
	batch, more := t.open(after)
	for _, one := range batch {
		if one.row.expires <= t.ms() {
			continue
		}
		f, err := t.read(one.row.place)
		if err != nil {
			return dedupe.Page{}, err
		}
		stored, err := decodeRecord(f.value)
		if err != nil {
			return dedupe.Page{}, err
		}
		record := stored.Observed(t.now)
		if record.State != dedupe.Unknown {
			continue
		}
		key, err := decodeKey(f.key)
		if err != nil {
			return dedupe.Page{}, err
		}
		page.Calls = append(page.Calls, dedupe.Listed{Key: key, Record: record})
	}
	if more {
		page.Next = strconv.FormatInt(batch[len(batch)-1].number, 10)
	}
	return page, nil
}
