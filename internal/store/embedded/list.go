package embedded

import (
	"cmp"
	"context"
	"fmt"
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
	return read(ctx, s, func(t *txn) (page dedupe.Page, err error) {
		looked := 0
		for r := range t.index.undecided.from(found{row: row{place: place{at: at}}}) {
			if looked++; looked > listBatch {
				page.Next = strconv.FormatInt(r.at, 10)
				break
			}
			key, stored, err := t.record(r.of)
			if err != nil {
				return dedupe.Page{}, err
			}
			if record := stored.Observed(t.now); record.Undecided() {
				page.Calls = append(page.Calls, dedupe.Listed{Key: key, Record: record})
			}
		}
		return page, nil
	})
}
