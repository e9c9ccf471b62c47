package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

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
// of one master after the other.
func (s *Store) ListOpen(ctx context.Context, from string) (page dedupe.Page, err error) {
	heads := func(p redis.Pipeliner, ctx context.Context, key string) *redis.StringCmd {
		return p.GetRange(ctx, key, 0, 3)
	}
	page.Next, err = s.scan(ctx, from, escaped(s.options.KeyPrefix+"{")+"*", listBatch, func(on *redis.Client, keys []string) error {
		now, err := on.Time(ctx).Result()
		if err != nil {
			return err
		}
		var some []string
		err = s.texts(ctx, on, keys, listBatch, heads, func(key, head string, err error) {
			if err != nil || mayBeOpen(head) {
				some = append(some, key)
			}
		})
		if err != nil {
			return err
		}
		page.Calls = nil
		return s.texts(ctx, on, some, textsAtOnce, redis.Pipeliner.Get, func(key, text string, err error) {
			if found := s.listed(key, text, now, err); found.Record.Open() || found.Err != nil {
				page.Calls = append(page.Calls, found)
			}
		})
	})
	if err != nil {
		return dedupe.Page{}, err
	}
	return page, nil
}

// scan hands on some of the keys that match a pattern, roughly batch at the most, and the
// server that has them, perhaps more than once. It returns where the next page begins; empty
// after the last. A place in a listing is what SCAN said, and of which server.
func (s *Store) scan(
	ctx context.Context, from, pattern string, batch int64, found func(on *redis.Client, keys []string) error,
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
		slices.Sort(keys) // SCAN may name a key twice
		return found(all[i], slices.Compact(keys))
	})
	return next, err
}

// texts asks for what stands under keys, so many at once, and hands on what is there; the
// error is of one that is no text.
func (s *Store) texts(
	ctx context.Context, on *redis.Client, keys []string, atOnce int,
	ask func(redis.Pipeliner, context.Context, string) *redis.StringCmd, found func(key, text string, err error),
) error {
	for some := range slices.Chunk(keys, atOnce) {
		within, cancel := context.WithTimeout(ctx, s.options.Timeout)
		asked, _ := on.Pipelined(within, func(p redis.Pipeliner) error { // the error is the first of the commands' own
			for _, key := range some {
				ask(p, within, key)
			}
			return nil
		})
		cancel()
		for i, key := range some {
			text, err := asked[i].(*redis.StringCmd).Result()
			if errors.Is(err, redis.Nil) {
				continue // it has expired since
			}
			if err = named(key, err); err != nil && !dedupe.IsCorrupt(err) {
				return err
			}
			found(key, text, err)
		}
	}
	return nil
}

// mayBeOpen tells from the first bytes of a record; there are none of one that
// is gone. Of one that cannot be, it is for a closer look to say so.
func mayBeOpen(head string) bool {
	if len(head) < 2 || !dedupe.KnownLayout(head[0]) {
		return head != ""
	}
	state := dedupe.State(head[1])
	return state != dedupe.Done && state != dedupe.NotRun && state != dedupe.Closed
}

// listed is a call as a listing has it.
func (s *Store) listed(name, text string, now time.Time, err error) dedupe.Listed {
	var stored dedupe.Stored
	if err == nil {
		stored, err = decodeRecord(text)
	}
	key, odd := parseRecordKey(s.options.KeyPrefix, name)
	if odd != nil {
		return dedupe.Listed{Err: named(name, odd)}
	}
	return dedupe.Listed{Key: key, Record: stored.Observed(now), Err: named(name, err)}
}

// parseRecordKey reads what RecordKey has written.
func parseRecordKey(prefix, name string) (tool.CallID, error) {
	rest, ok := strings.CutPrefix(name, prefix+"{")
	_, rest, tagged := strings.Cut(rest, "}/")
	parts := strings.Split(rest, "/")
	ok = ok && tagged && len(parts) == 4
	for i := range parts {
		part, err := url.QueryUnescape(parts[i])
		parts[i], ok = part, ok && err == nil
	}
	if !ok {
		return tool.CallID{}, fmt.Errorf("%w: %q is no key of a record", dedupe.ErrCorrupt, name)
	}
	return tool.CallID{Tenant: parts[0], Conversation: parts[1], Turn: parts[2], ID: parts[3]}, nil
}

// escaped is a text as it stands in a pattern of SCAN.
func escaped(text string) string { return globEscaper.Replace(text) }

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
