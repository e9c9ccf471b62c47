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

// ListOpen implements dedupe.Store. A page goes on at a place of the log. A record that is
// moved meanwhile is at its end, and comes once more.
func (s *Store) ListOpen(ctx context.Context, from string) (dedupe.Page, error) {
	at, err := strconv.ParseInt(cmp.Or(from, "0"), 10, 64)
	if err != nil {
		return dedupe.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	return read(ctx, s, func(t *txn) (dedupe.Page, error) { return t.listOpen(at) })
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

func (t *txn) listOpen(from int64) (page dedupe.Page, err error) {
	undecided := lowest(byPlace, func(yield func(found) bool) {
		for of := range t.index.undecided {
			if r := t.index.rows[of]; r.at >= from && !yield(found{of, r}) {
				return
			}
		}
	})
	for i, r := range undecided {
		if i == listBatch {
			page.Next = strconv.FormatInt(r.at, 10)
			break
		}
		encoded, stored, err := t.record(r.of)
		if err != nil {
			return dedupe.Page{}, err
		}
		if record := stored.Observed(t.now); record.Open() {
			page.Calls = append(page.Calls, dedupe.Listed{Key: decodeKey(encoded), Record: record})
		}
	}
	return page, nil
}
