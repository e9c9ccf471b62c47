package redisstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/dedupe"
)

// Find implements dedupe.Store. It asks all shards for their first entries, and those again that
// turn out to have more of the page, and then for the records. A page goes on behind an entry.
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
	parts  [shards]part
}

// part are the entries of a shard that come next.
type part struct {
	next []entry
	last entry // of those that it was asked for
	all  bool  // there are no more behind them
}

const (
	// fewEntries is how many entries each shard is asked for first, beside its share of the page.
	fewEntries = 8
	// shardsAtOnce is how many shards are asked at a time, so that calls get in between.
	shardsAtOnce = 16
)

// entries are those after one in order, one more than the page has if there are more.
func (f *finding) entries(ctx context.Context, after entry) (found []entry, err error) {
	want := f.search.Most + 1
	only := shardOf(f.search.Tenant, f.search.Conversation)
	for i := range f.parts {
		f.parts[i].last, f.parts[i].all = after, f.search.Conversation != "" && shard(i) != only
	}
	for most := fewEntries + 4*want/shards; ; most = want {
		if err := f.ask(ctx, most); err != nil {
			return nil, err
		}
		some, all := f.sure()
		if found = append(found, some...); all || len(found) >= want {
			return found[:min(want, len(found))], nil
		}
	}
}

// ask asks the shards of which nothing is known that comes next.
func (f *finding) ask(ctx context.Context, most int) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(shardsAtOnce)
	for i := range f.parts {
		if p := &f.parts[i]; len(p.next) == 0 && !p.all {
			all.Go(func() error { return f.askOne(ctx, shard(i), most) })
		}
	}
	return all.Wait()
}

// askOne asks a shard for entries after the last.
func (f *finding) askOne(ctx context.Context, in shard, most int) error {
	p, term := &f.parts[in], string(f.search.Term[:])
	low, high := "["+term, "("+term+"\xff\xff\xff\xff\xff\xff\xff"
	if p.last != "" {
		low = "(" + term + string(p.last)
	}
	if since := dedupe.Millis(f.search.Since); !f.search.Since.IsZero() && since > 0 {
		high = "(" + term + backwards(since-1)
	}
	return f.query(ctx, in, low, high, most, func(told []string) { p.hear(told, most) })
}

// query asks for the first entries between bounds in each period of a shard.
func (f *finding) query(ctx context.Context, in shard, low, high string, most int, hear func(told []string)) error {
	bounds := binary.BigEndian.AppendUint16(nil, uint16(most))
	bounds = append(binary.BigEndian.AppendUint16(bounds, uint16(len(low))), low+high...)
	keys := periodsAt(f.options.KeyPrefix, in, f.search.Tenant, f.now, f.search.Since)
	return f.run(ctx, string(keys[0][0]), &own{bytes: most * dedupe.MaxNameBytes, apply: func(r *rows) error {
		for _, some := range keys {
			r.write('Q', -1-len(r.others), int64(len(some)), bounds)
			r.others = append(r.others, some...) // each is another
		}
		r.heard = func(_ time.Time, told []string) { hear(told) }
		return nil
	}})
}

// hear takes what was told of the periods of a shard, of each so much at the most: as much of it
// as has nothing else between.
func (p *part) hear(told []string, most int) {
	p.next, p.all = make([]entry, 0, len(told)), true
	of := 0 // the period
	for _, e := range told {
		if e != "" {
			p.next, of = append(p.next, entry(e[termBytes:])), of+1
			continue
		}
		if of == most {
			if last := p.next[len(p.next)-1]; p.all || last < p.last {
				p.last = last
			}
			p.all = false
		}
		of = 0
	}
	slices.Sort(p.next)
	if !p.all {
		p.next = slices.DeleteFunc(p.next, func(e entry) bool { return e > p.last })
	}
}

// sure takes the entries that come next, in order, as far as no shard can have others between
// them; all says that these were the last.
func (f *finding) sure() (found []entry, all bool) {
	all = true
	var bound entry
	for i := range f.parts {
		if p := &f.parts[i]; !p.all {
			if all || p.last < bound {
				bound = p.last
			}
			all = false
		}
	}
	for i := range f.parts {
		p := &f.parts[i]
		n := len(p.next)
		if !all {
			n, _ = slices.BinarySearch(p.next, bound+"\x00")
		}
		found, p.next = append(found, p.next[:n]...), p.next[n:]
	}
	slices.Sort(found)
	return found, all
}

// page reads the records of entries, so many at once.
func (f *finding) page(ctx context.Context, found []entry) (page dedupe.Page, err error) {
	for bytes, at := 0, 0; at < len(found); at += textsAtOnce {
		some := found[at:min(at+textsAtOnce, len(found))]
		calls, current := make([]dedupe.Listed, len(some)), make([]bool, len(some))
		all, ctx := errgroup.WithContext(ctx)
		for i, e := range some {
			all.Go(func() (err error) {
				calls[i], current[i], err = f.call(ctx, e)
				return err
			})
		}
		if err := all.Wait(); err != nil {
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
	seen, err := f.See(ctx, key)
	if dedupe.IsCorrupt(err) || errors.Is(err, dedupe.ErrLayout) {
		return dedupe.Listed{Key: key, Err: err}, true, nil
	}
	if current = true; err == nil && seen.Record.StartedAt.After(claimed) {
		own := "[" + string(f.search.Term[:]) + backwards(dedupe.Millis(seen.Record.StartedAt)) + string(e[instantBytes:])
		err = f.query(ctx, shardOfCall(&key), own, own, 1, func(told []string) {
			current = !slices.ContainsFunc(told, func(e string) bool { return e != "" })
		})
	}
	return dedupe.Listed{Key: key, Record: seen.Record}, current, err
}
