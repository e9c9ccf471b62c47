package embedded

import (
	"cmp"
	"context"
	"fmt"
	"iter"
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

// lowest are the first of all in order: as many as a page looks at, and one more if there are
// more. Only those that may be among them are sorted.
func lowest[T any](order func(a, b T) int, all iter.Seq[T]) (low []T) {
	cut := false
	for one := range all {
		if cut && order(one, low[listBatch]) > 0 {
			continue
		}
		if low = append(low, one); len(low) == 4*listBatch {
			slices.SortFunc(low, order)
			low, cut = low[:listBatch+1], true
		}
	}
	slices.SortFunc(low, order)
	return low[:min(len(low), listBatch+1)]
}

// numbered is an undecided record, with its number.
type numbered struct {
	number int64
	of     digest
}

// open returns the undecided records after a number, in order, as many as a page asks for.
func (t *txn) open(after int64) []numbered {
	return lowest(func(a, b numbered) int { return cmp.Compare(a.number, b.number) }, func(yield func(numbered) bool) {
		for of, number := range t.index.undecided {
			if number > after && !yield(numbered{number, of}) {
				return
			}
		}
	})
}

func (t *txn) listUnknown(after int64) (page dedupe.Page, err error) {
	for i, one := range t.open(after) {
		if i == listBatch {
			page.Next = strconv.FormatInt(after, 10)
			break
		}
		after = one.number
		r := t.index.rows[one.of]
		if r.expires <= t.ms() {
			continue
		}
		f, err := t.read(r.place)
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
	return page, nil
}
