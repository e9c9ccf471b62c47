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

// listBatch is roughly how many keys one page of a listing looks at.
const listBatch = 1000

// cursor is a place in a listing: of which server, and of what SCAN said there.
type cursor struct {
	addr string // empty but on a Cluster
	scan uint64
}

// ListUnknown implements dedupe.Store. It walks over the keys, on a Cluster those
// of one master after the other.
func (s *Store) ListUnknown(ctx context.Context, from string) (page dedupe.Page, err error) {
	err = persist(ctx, func() error {
		server, keys, next, err := s.scan(ctx, from, globEscaped(s.options.KeyPrefix)+"{*", listBatch)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
		defer cancel()
		page.Next = next
		page.Calls, err = s.unknown(ctx, server, keys)
		return err
	})
	if err != nil {
		return dedupe.Page{}, err
	}
	return page, nil
}

// persist asks a question until there is an answer, a few times at the most and never
// beyond ctx.
func persist(ctx context.Context, ask func() error) error {
	for try := 0; ; try++ {
		err := ask()
		if err == nil || ctx.Err() != nil || !worthRepeating(err) || try+1 == maxTries || !pause(ctx, try) {
			return err
		}
	}
}

// scan returns some of the keys of a pattern, roughly batch at the most, the server
// that has them, and where the next page begins; empty after the last.
func (s *Store) scan(ctx context.Context, from, pattern string, batch int) (server redis.Cmdable, keys []string, next string, err error) {
	at, err := parseCursor(from)
	if err != nil {
		return nil, nil, "", err
	}
	if s.pipe.closing() {
		return nil, nil, "", dedupe.ErrClosed
	}
	if err := s.fit(ctx); err != nil {
		return nil, nil, "", err
	}
	servers, err := masters(ctx, s.client)
	if err != nil {
		return nil, nil, "", err
	}
	names := sortedKeys(servers)
	if from == "" {
		at.addr = names[0]
	}
	server, ok := servers[at.addr]
	if !ok {
		return nil, nil, "", fmt.Errorf("the redis master %s is gone; begin the listing again", at.addr)
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	keys, place, err := server.Scan(ctx, at.scan, pattern, int64(batch)).Result()
	if err != nil {
		return nil, nil, "", err
	}
	slices.Sort(keys) // SCAN may name a key twice
	i, _ := slices.BinarySearch(names, at.addr)
	switch {
	case place != 0:
		next = cursor{at.addr, place}.String()
	case i+1 < len(names):
		next = cursor{names[i+1], 0}.String()
	}
	return server, slices.Compact(keys), next, nil
}

// unknown returns those calls of the given record keys that are Unknown, or of
// which the record cannot be read.
func (s *Store) unknown(ctx context.Context, server redis.Cmdable, keys []string) ([]dedupe.Listed, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	heads := make([]*redis.StringCmd, len(keys))
	var clock *redis.TimeCmd
	// Its error is the first of the commands' own, which are looked at below.
	_, _ = server.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock = p.Time(ctx)
		for i, key := range keys {
			heads[i] = p.GetRange(ctx, key, 0, 3)
		}
		return nil
	})
	if clock.Err() != nil {
		return nil, clock.Err()
	}
	var calls []dedupe.Listed
	for i, head := range heads {
		if err := refused(keys[i], head.Err()); err != nil && !dedupe.IsCorrupt(err) {
			return nil, err
		}
		if head.Err() == nil && !mayBeUnknown(head.Val()) {
			continue
		}
		// Looked at one by one: there are few, and a record may be large.
		found, err := s.look(ctx, server, keys[i], clock.Val())
		if err != nil {
			return nil, err
		}
		if found.Record.State == dedupe.Unknown || found.Err != nil {
			calls = append(calls, found)
		}
	}
	return calls, nil
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

// look reads one record; Absent when it is gone.
func (s *Store) look(ctx context.Context, server redis.Cmdable, name string, now time.Time) (dedupe.Listed, error) {
	stored, err := server.Get(ctx, name).Result()
	if errors.Is(err, redis.Nil) {
		return dedupe.Listed{}, nil
	}
	if err = refused(name, err); err != nil && !dedupe.IsCorrupt(err) {
		return dedupe.Listed{}, err
	}
	var record dedupe.Record
	if err == nil {
		var read dedupe.Stored
		read, err = decodeRecord(stored)
		record, err = read.Record, called(name, err)
	}
	found := dedupe.Listed{Record: record.Observed(now), Err: err}
	if found.Key, err = parseRecordKey(s.options.KeyPrefix, name); err != nil {
		found = dedupe.Listed{Err: called(name, err)}
	}
	return found, nil
}

// parseRecordKey reads what recordKey has written.
func parseRecordKey(prefix, name string) (dedupe.Key, error) {
	rest, ok := strings.CutPrefix(name, prefix+"{")
	// What is in braces ends after the conversation or, without one, at the end.
	parts := strings.Split(strings.Replace(rest, "}", "", 1), "/")
	if !ok || len(parts) != 4 {
		return dedupe.Key{}, fmt.Errorf("%w: %q is no key of a record", dedupe.ErrCorrupt, name)
	}
	for i, part := range parts {
		// The components hold no plus sign, which is all that tells the two
		// kinds of escaping apart.
		plain, err := url.PathUnescape(part)
		if err != nil {
			return dedupe.Key{}, fmt.Errorf("%w: %q is no key of a record", dedupe.ErrCorrupt, name)
		}
		parts[i] = plain
	}
	return dedupe.Key{Tenant: parts[0], Conversation: parts[1], Turn: parts[2], ID: parts[3]}, nil
}

func (c cursor) String() string { return strconv.FormatUint(c.scan, 10) + " " + c.addr }

func parseCursor(text string) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	number, addr, ok := strings.Cut(text, " ")
	scan, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil {
		return cursor{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, text)
	}
	return cursor{addr, scan}, nil
}

func sortedKeys(servers map[string]redis.Cmdable) []string {
	names := make([]string, 0, len(servers))
	for name := range servers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// globEscaped makes a text that matches itself in a pattern of SCAN.
func globEscaped(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
