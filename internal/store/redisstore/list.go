package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// listBatch is roughly how many keys one page of a listing looks at.
	listBatch = 1000
	// textsAtOnce is how many texts are held at a time: each may be some hundred KiB, of
	// which a listing keeps little.
	textsAtOnce = 32
)

// masters returns the servers that hold the records, by address.
func masters(ctx context.Context, client redis.UniversalClient) (all []*redis.Client, err error) {
	if only, ok := client.(*redis.Client); ok {
		return []*redis.Client{only}, nil
	}
	var mu sync.Mutex
	err = client.(*redis.ClusterClient).ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, node)
		return nil
	})
	if err == nil && len(all) == 0 {
		err = errors.New("the redis cluster has no master")
	}
	slices.SortFunc(all, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
	return all, err
}

// Now implements dedupe.Store: the server's TIME. On a Cluster it is that of
// the master whose clock is the furthest behind, so that no record is taken to
// be older than it is.
func (s *Store) Now(ctx context.Context) (earliest time.Time, err error) {
	if err := s.open(ctx); err != nil {
		return earliest, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	all, err := masters(ctx, s.client)
	for _, m := range all {
		now, err := m.Time(ctx).Result()
		if err != nil {
			return time.Time{}, fmt.Errorf("redis TIME: %w", err)
		}
		if earliest.IsZero() || now.Before(earliest) {
			earliest = now
		}
	}
	return earliest, err
}

// ListOpen implements dedupe.Store. It walks over the keys, on a Cluster those
// of one master after the other, and looks closely at the records that may be open.
func (s *Store) ListOpen(ctx context.Context, from string) (page dedupe.Page, err error) {
	var open []string
	page.Next, err = s.scan(ctx, from, escaped(s.options.KeyPrefix+"{")+"*", listBatch, 3, func(key, head string, err error) {
		if err != nil || mayBeOpen(head) {
			open = append(open, key)
		}
	})
	if err != nil {
		return dedupe.Page{}, err
	}
	slices.Sort(open)
	open = slices.Compact(open)
	page.Calls = make([]dedupe.Listed, len(open))
	err = each(ctx, len(open), textsAtOnce, func(ctx context.Context, i int) (err error) {
		_, parts, _ := strings.Cut(open[i], "}/")
		key, odd := callOf(parts)
		if odd != nil {
			page.Calls[i].Err = named(open[i], odd)
			return nil
		}
		page.Calls[i], err = s.listed(ctx, key)
		return err
	})
	if err != nil {
		return dedupe.Page{}, err
	}
	page.Calls = slices.DeleteFunc(page.Calls, func(call dedupe.Listed) bool { return call.Err == nil && !call.Record.State.Undecided() })
	return page, nil
}

// each does something for each of so many, some at once.
func each(ctx context.Context, count, atOnce int, do func(ctx context.Context, i int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
	for i := range count {
		all.Go(func() error { return do(ctx, i) })
	}
	return all.Wait()
}

// scan hands on what stands under some of the keys that match a pattern, up to a last byte:
// roughly batch at the most, and perhaps more than once; the error is of one that is no text. It
// returns where the next page begins; empty after the last. A place in a listing is what SCAN
// said, and of which server.
func (s *Store) scan(
	ctx context.Context, from, pattern string, batch, last int64, found func(key, text string, err error),
) (next string, err error) {
	number, addr, ok := strings.Cut(cmp.Or(from, "0 "), " ")
	begin, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil {
		return "", fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	err = persist(ctx, func() error {
		if err := s.ready(ctx); err != nil {
			return err
		}
		all, err := masters(ctx, s.client)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(m *redis.Client) bool { return from == "" || m.Options().Addr == addr })
		if i < 0 {
			return fmt.Errorf("the redis master %s is gone; begin the listing again", addr)
		}
		within, cancel := context.WithTimeout(ctx, s.options.Timeout)
		defer cancel()
		keys, place, err := all[i].Scan(within, begin, pattern, batch).Result()
		switch next = ""; {
		case err != nil:
			return err
		case place != 0:
			next = fmt.Sprint(place, " ", all[i].Options().Addr)
		case i+1 < len(all):
			next = "0 " + all[i+1].Options().Addr
		}
		return s.texts(ctx, all[i], keys, last, found)
	})
	return next, err
}

// texts hands on what stands under keys.
func (s *Store) texts(ctx context.Context, on *redis.Client, keys []string, last int64, found func(key, text string, err error)) error {
	atOnce := listBatch
	if last < 0 {
		atOnce = textsAtOnce
	}
	for some := range slices.Chunk(keys, atOnce) {
		within, cancel := context.WithTimeout(ctx, s.options.Timeout)
		asked, _ := on.Pipelined(within, func(p redis.Pipeliner) error { // the error is the first of the commands' own
			for _, key := range some {
				p.GetRange(within, key, 0, last)
			}
			return nil
		})
		cancel()
		for i, key := range some {
			text, err := asked[i].(*redis.StringCmd).Result()
			if err = named(key, err); err != nil && !dedupe.IsCorrupt(err) {
				return err
			}
			if err != nil || text != "" { // it has not expired since
				found(key, text, err)
			}
		}
	}
	return nil
}

// mayBeOpen tells from the first bytes of a record. Of one that cannot be, it is for a closer
// look to say so.
func mayBeOpen(head string) bool {
	if len(head) < 2 || !dedupe.KnownLayout(head[0]) {
		return true
	}
	state := dedupe.State(head[1])
	return state != dedupe.Done && state != dedupe.NotRun && state != dedupe.Closed
}

// listed is the call of a key, as a listing has it.
func (s *Store) listed(ctx context.Context, key tool.CallID) (dedupe.Listed, error) {
	seen, err := s.Note(ctx, dedupe.Note{Key: key})
	if dedupe.IsCorrupt(err) || errors.Is(err, dedupe.ErrLayout) {
		return dedupe.Listed{Key: key, Err: err}, nil
	}
	return dedupe.Listed{Key: key, Record: seen.Record}, err
}

// escaped is a text as it stands in a pattern of SCAN.
func escaped(text string) string { return globEscaper.Replace(text) }

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
