package redisstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// Find implements dedupe.Store. It asks all shards for their first entries, and those again that
// may have more of the page, and then for the records. A page goes on behind an entry.
func (s *Store) Find(ctx context.Context, search dedupe.Search) (page dedupe.Page, err error) {
	if err := search.Validate(); err != nil {
		return page, err
	}
	after, err := base64.RawURLEncoding.DecodeString(search.From)
	if err == nil && search.From != "" {
		_, _, err = entry(after).decode("")
	}
	if err != nil {
		return page, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, search.From)
	}
	now, err := s.Now(ctx)
	if err != nil {
		return page, err
	}
	f := finding{Store: s, search: &search, now: now}
	found, err := f.entries(ctx, entry(after))
	if err != nil {
		return page, err
	}
	return f.page(ctx, found)
}

// finding is a search.
type finding struct {
	*Store

	search *dedupe.Search
	now    time.Time
}

// part are the first entries of a shard.
type part struct {
	entries []entry // in no order
	known   entry   // up to this one none is missing
}

// lastEntry is behind all entries.
const lastEntry entry = "\xff\xff\xff\xff\xff\xff\xff"

const (
	// fewEntries is how many entries each shard is asked for first, beside its share of the page.
	fewEntries = 8
	// shardsAtOnce is how many shards are asked at a time, so that calls get in between.
	shardsAtOnce = 16
)

// entries are those after one in order, one more than the page has if there are more. A shard is
// asked again if it may have others between them: then for all of them.
func (f *finding) entries(ctx context.Context, after entry) (found []entry, err error) {
	var parts [shards]part
	for i := range parts {
		if f.search.Conversation != "" && shard(i) != shardOf(f.search.Tenant, f.search.Conversation) {
			parts[i].known = lastEntry
		}
	}
	return first(f.search.Most+1, parts[:], func(missing func(part) bool, most int) error {
		return each(ctx, shards, shardsAtOnce, func(ctx context.Context, i int) error {
			if missing(parts[i]) {
				return f.ask(ctx, shard(i), after, most, &parts[i])
			}
			return nil
		})
	})
}

// first are the first entries of parts, so many at the most. ask asks anew for those parts of which
// some may be missing, which may have changed since they were asked.
func first(want int, parts []part, ask func(missing func(part) bool, most int) error) (found []entry, err error) {
	bound := lastEntry
	missing := func(p part) bool { return p.known < bound }
	for most := fewEntries + 4*want/len(parts); slices.ContainsFunc(parts, missing); most = want {
		if err := ask(missing, most); err != nil {
			return nil, err
		}
		found, bound = found[:0], lastEntry
		for i := range parts {
			found = append(found, parts[i].entries...)
		}
		if slices.Sort(found); len(found) >= want {
			found, bound = found[:want], found[want-1]
		}
	}
	return found, nil
}

// ask asks a shard for entries after one, of each period so many at the most.
func (f *finding) ask(ctx context.Context, in shard, after entry, most int, p *part) error {
	term := string(f.search.Term[:])
	low, high := "["+term, "("+term+string(lastEntry)
	if after != "" {
		low = "(" + term + string(after)
	}
	if since := dedupe.Millis(f.search.Since); !f.search.Since.IsZero() && since > 0 {
		high = "(" + term + backwards(since-1)
	}
	return f.query(ctx, in, low, high, most, func(told []string) { *p = partOf(told, most) })
}

// partOf reads what was told of the periods of a shard: of one that has told as many as it might
// the later ones are missing.
func partOf(told []string, most int) part {
	p, of := part{known: lastEntry}, 0
	for _, text := range told {
		if text == "" { // the next period
			of = 0
			continue
		}
		e := entry(text[termBytes:])
		p.entries = append(p.entries, e)
		if of++; of == most {
			p.known = min(p.known, e)
		}
	}
	return p
}

// query asks for the first entries between bounds in each period of a shard.
func (f *finding) query(ctx context.Context, in shard, low, high string, most int, hear func(told []string)) error {
	bounds := binary.BigEndian.AppendUint16(nil, uint16(most))
	bounds = append(binary.BigEndian.AppendUint16(bounds, uint16(len(low))), low+high...)
	keys := periodsAt(f.options.KeyPrefix, in, f.search.Tenant, f.now, f.search.Since)
	return f.run(ctx, string(keys[0][0]), own(most*dedupe.MaxNameBytes, func(r *rows) {
		for _, some := range keys {
			r.write('Q', -1-len(r.others), int64(len(some)), bounds)
			r.others = append(r.others, some...) // each is another
		}
		r.heard = func(_ time.Time, told []string) { hear(told) }
	}))
}

// page reads the records of entries, so many at once.
func (f *finding) page(ctx context.Context, found []entry) (page dedupe.Page, err error) {
	for bytes, at := 0, 0; at < len(found); at += textsAtOnce {
		some := found[at:min(at+textsAtOnce, len(found))]
		calls, current := make([]dedupe.Listed, len(some)), make([]bool, len(some))
		err := each(ctx, len(some), textsAtOnce, func(ctx context.Context, i int) (err error) {
			calls[i], current[i], err = f.call(ctx, some[i])
			return err
		})
		if err != nil {
			return dedupe.Page{}, err
		}
		for i := range calls {
			if at+i == f.search.Most || bytes > dedupe.MaxFoundBytes {
				page.Next = base64.RawURLEncoding.EncodeToString([]byte(found[at+i-1]))
				return page, nil
			}
			if bytes += len(calls[i].Record.Result); current[i] {
				page.Calls = append(page.Calls, calls[i])
			}
		}
	}
	return page, nil
}

// call is that of an entry. It is not current where the call was claimed again since, and has
// another entry for that.
func (f *finding) call(ctx context.Context, e entry) (call dedupe.Listed, current bool, err error) {
	key, claimed, err := e.decode(f.search.Tenant)
	if err != nil {
		return dedupe.Listed{Err: err}, true, nil //nolint:nilerr // which is listed
	}
	if of := f.search.Conversation; of != "" && key.Conversation != of {
		return call, false, nil
	}
	call, err = f.listed(ctx, key)
	if current = true; err == nil && call.Record.StartedAt.After(claimed) {
		own := "[" + string(f.search.Term[:]) + backwards(dedupe.Millis(call.Record.StartedAt)) + string(e[instantBytes:])
		err = f.query(ctx, shardOfCall(&key), own, own, 1, func(told []string) {
			current = !slices.ContainsFunc(told, func(e string) bool { return e != "" })
		})
	}
	return call, current, err
}
