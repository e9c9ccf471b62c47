package embedded

import (
	"cmp"
	"context"
	"fmt"
	"math"
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
	return read(ctx, s, func(t *txn) (page dedupe.Page) {
		looked := 0
		for r := range t.index.undecided.from(found{row: row{place: place{at: at}}}) {
			if looked++; looked > listBatch {
				page.Next = strconv.FormatInt(r.at, 10)
				break
			}
			key, stored := t.record(r.of)
			if record := stored.Observed(t.now); record.State.Undecided() {
				page.Calls = append(page.Calls, dedupe.Listed{Key: key, Record: record})
			}
		}
		return page
	})
}

// Find implements dedupe.Store. A page goes on before the number of a claim.
func (s *Store) Find(ctx context.Context, search dedupe.Search) (dedupe.Page, error) {
	if err := search.Validate(); err != nil {
		return dedupe.Page{}, err
	}
	before, err := strconv.ParseInt(cmp.Or(search.From, strconv.Itoa(math.MaxInt64)), 10, 64)
	if err != nil {
		return dedupe.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, search.From)
	}
	return read(ctx, s, func(t *txn) dedupe.Page { return find(t, &search, before) })
}

// find looks at the calls of a term that were claimed before one with a number. Rows that are
// over, or of another term, count too, so that the work of a page is bounded.
func find(t *txn, s *dedupe.Search, before int64) (page dedupe.Page) {
	looked, bytes := 0, 0
	term := t.index.term(s.Tenant, &s.Term)
	for p := range t.index.terms.from(posting{term: term, number: before - 1}) {
		if p.term != term {
			break
		}
		if looked == listBatch || len(page.Calls) == s.Most || bytes > dedupe.MaxFoundBytes {
			page.Next = strconv.FormatInt(before, 10)
			break
		}
		looked, before = looked+1, p.number
		call, claimed := foundBy(t, p.of, s)
		if t.failed != nil || claimed < dedupe.Millis(s.Since) {
			break
		}
		if call != nil && (call.Record.State == dedupe.Absent || dedupe.Millis(call.Record.StartedAt) >= dedupe.Millis(s.Since)) {
			bytes += len(call.Record.Result)
			page.Calls = append(page.Calls, *call)
		}
	}
	return page
}

// foundBy reads a row of terms, and the record of its call; nil where it is over, or does not
// have the term.
func foundBy(t *txn, of digest, s *dedupe.Search) (call *dedupe.Listed, claimed int64) {
	f, err := t.read(t.index.rows[of].place)
	if err != nil {
		t.Fail(err)
		return nil, 0
	}
	v, key := decodeIndexed(f.value), decodeKey(f.key)
	if key.Tenant != s.Tenant || s.Conversation != "" && key.Conversation != s.Conversation || f.expires <= t.ms() || !slices.Contains(v.terms, s.Term) {
		return nil, v.claimed
	}
	return &dedupe.Listed{Key: key, Record: t.Call(key).Observed(t.now)}, v.claimed
}
