package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
)

const (
	// listBatch is roughly how many keys one page of a listing looks at.
	listBatch = 1000
	// textsAtOnce is how many texts are held at a time: each may be some hundred KiB, of
	// which a listing keeps little.
	textsAtOnce = 32
)

// ListUnknown implements dedupe.Store. It walks over the keys, on a Cluster those
// of one master after the other.
func (s *Store) ListUnknown(ctx context.Context, from string) (page dedupe.Page, err error) {
	err = persist(ctx, func() error {
		page = dedupe.Page{}
		on, keys, next, err := s.scan(ctx, from, globEscaped(s.options.KeyPrefix)+"{*", listBatch)
		if err != nil {
			return err
		}
		now, err := on.Time(ctx).Result()
		if err != nil {
			return err
		}
		var some []string
		heads := func(p redis.Pipeliner, key string) *redis.StringCmd { return p.GetRange(ctx, key, 0, 3) }
		err = s.texts(ctx, on, keys, listBatch, heads, func(key, head string, err error) {
			if err != nil || mayBeUnknown(head) {
				some = append(some, key)
			}
		})
		if err != nil {
			return err
		}
		whole := func(p redis.Pipeliner, key string) *redis.StringCmd { return p.Get(ctx, key) }
		page.Next = next
		return s.texts(ctx, on, some, textsAtOnce, whole, func(key, text string, err error) {
			if found := s.listed(key, text, now, err); found.Record.State == dedupe.Unknown || found.Err != nil {
				page.Calls = append(page.Calls, found)
			}
		})
	})
	if err != nil {
		return dedupe.Page{}, err
	}
	return page, nil
}

// scan returns some of the keys of a pattern, roughly batch at the most, the server
// that has them, and where the next page begins; empty after the last.
func (s *Store) scan(ctx context.Context, from, pattern string, batch int) (on master, keys []string, next string, err error) {
	addr, place, err := parseCursor(from)
	if err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		return on, nil, "", err
	}
	all, err := masters(ctx, s.client)
	if err != nil {
		return on, nil, "", err
	}
	i := slices.IndexFunc(all, func(m master) bool { return from == "" || m.addr == addr })
	if i < 0 {
		return on, nil, "", fmt.Errorf("the redis master %s is gone; begin the listing again", addr)
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	keys, place, err = all[i].Scan(ctx, place, pattern, int64(batch)).Result()
	switch {
	case err != nil:
		return on, nil, "", err
	case place != 0:
		next = cursor(all[i].addr, place)
	case i+1 < len(all):
		next = cursor(all[i+1].addr, 0)
	}
	slices.Sort(keys) // SCAN may name a key twice
	return all[i], slices.Compact(keys), next, nil
}

// texts asks for what stands under keys, so many at once, and hands on what is there; the
// error is of one that is no text.
func (s *Store) texts(
	ctx context.Context, on master, keys []string, atOnce int,
	ask func(redis.Pipeliner, string) *redis.StringCmd, found func(key, text string, err error),
) error {
	for some := range slices.Chunk(keys, atOnce) {
		within, cancel := context.WithTimeout(ctx, s.options.Timeout)
		pipe, asked := on.Pipeline(), make([]*redis.StringCmd, len(some))
		for i, key := range some {
			asked[i] = ask(pipe, key)
		}
		_, _ = pipe.Exec(within) // the first of the commands' own errors
		cancel()
		for i, key := range some {
			text, err := asked[i].Result()
			if errors.Is(err, redis.Nil) {
				continue // it has expired since
			}
			if err = refused(key, err); err != nil && !dedupe.IsCorrupt(err) {
				return err
			}
			found(key, text, err)
		}
	}
	return nil
}

// mayBeUnknown tells from the first bytes of a record; there are none of one that
// is gone. Of one that cannot be, it is for a closer look to say so.
func mayBeUnknown(head string) bool {
	switch {
	case head == "":
		return false
	case len(head) == 1 || !dedupe.KnownLayout(head[0]):
		return true
	default:
		return dedupe.State(head[1]) != dedupe.Done && dedupe.State(head[1]) != dedupe.NotRun
	}
}

// listed is a call as a listing has it.
func (s *Store) listed(name, text string, now time.Time, err error) dedupe.Listed {
	var stored dedupe.Stored
	if err == nil {
		stored, err = decodeRecord(text)
	}
	key, odd := parseRecordKey(s.options.KeyPrefix, name)
	if odd != nil {
		return dedupe.Listed{Err: called(name, odd)}
	}
	return dedupe.Listed{Key: key, Record: stored.Observed(now), Err: called(name, err)}
}

// parseRecordKey reads what recordKey has written.
func parseRecordKey(prefix, name string) (dedupe.Key, error) {
	rest, ok := strings.CutPrefix(name, prefix+"{")
	// What is in braces ends after the conversation or, without one, at the end.
	parts := strings.Split(strings.Replace(rest, "}", "", 1), "/")
	ok = ok && len(parts) == 4
	for i := range parts {
		// They hold no plus sign, which is all that tells the two kinds of escaping apart.
		part, err := url.PathUnescape(parts[i])
		parts[i], ok = part, ok && err == nil
	}
	if !ok {
		return dedupe.Key{}, fmt.Errorf("%w: %q is no key of a record", dedupe.ErrCorrupt, name)
	}
	return dedupe.Key{Tenant: parts[0], Conversation: parts[1], Turn: parts[2], ID: parts[3]}, nil
}

// cursor is a place in a listing: of which server, and of what SCAN said there.
func cursor(addr string, place uint64) string { return strconv.FormatUint(place, 10) + " " + addr }

func parseCursor(text string) (addr string, place uint64, err error) {
	if text == "" {
		return "", 0, nil
	}
	number, addr, ok := strings.Cut(text, " ")
	if place, err = strconv.ParseUint(number, 10, 64); !ok || err != nil {
		return "", 0, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, text)
	}
	return addr, place, nil
}

// globEscaped makes a text that matches itself in a pattern of SCAN.
func globEscaped(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
