package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/conversation"
	"github.com/sidecall/sidecall/dedupe"
)

var _ conversation.Store = (*Store)(nil)

// conversationKeys are the keys of a conversation: of its head, and of the list of its
// messages, both in the slot of its calls.
//
//	sidecall:conversation/{tenant/conversation}
//	sidecall:messages/{tenant/conversation}
func conversationKeys(prefix string, k conversation.Key) []string {
	braced := string(appendComponent(append(appendComponent([]byte{'{'}, k.Tenant), '/'), k.ID)) + "}"
	return []string{prefix + "conversation/" + braced, prefix + "messages/" + braced}
}

// WriteConversation implements conversation.Store. With WaitReplicas it waits for them.
func (s *Store) WriteConversation(ctx context.Context, w conversation.Write) (written bool, err error) {
	keys := conversationKeys(s.options.KeyPrefix, w.Key)
	c := &writing{head: keys[0], messages: keys[1], write: w}
	weight := len(w.Head)
	for _, m := range w.Messages {
		weight += len(m)
	}
	for _, closing := range w.Closings {
		weight += dedupe.StoredBytes + len(closing.Result)
	}
	if err := s.run(ctx, func() *command { return &command{key: c.head, step: c, weight: weight, ofCall: true} }, func() bool { return !c.written }); err != nil {
		return false, err // it may still be decided
	}
	return c.written, nil
}

// writing is the step of an append to a conversation.
type writing struct {
	head, messages string
	write          conversation.Write
	written        bool
}

func (c *writing) Apply(of dedupe.Rows) error {
	r, w := of.(*rows), &c.write
	ttl := w.TTL.Milliseconds()
	before := r.read[r.believe(c.head, string(w.Was))].text
	if c.written = before == string(w.Head); c.written {
		// It is written again: what a WAIT says covers this answer then too.
		r.set(c.head, before, w.TTL)
		r.writeOther('e', c.messages, ttl, nil)
		return nil
	}
	if before != string(w.Was) {
		return nil
	}
	if before == "" { // messages without a head are of a conversation that has expired
		r.writeOther('d', c.messages, 0, nil)
	}
	r.writeOther('n', c.messages, w.After, nil)
	for _, m := range w.Messages {
		r.writeOther('r', c.messages, 0, m)
	}
	r.writeOther('e', c.messages, ttl, nil)
	shut, err := dedupe.Shut(r, w.Closings)
	if c.written = shut; !shut || err != nil {
		r.writes = r.writes[:0]
		return err
	}
	r.set(c.head, string(w.Head), w.TTL)
	return nil
}

// ReadConversation implements conversation.Store.
func (s *Store) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	keys := conversationKeys(s.options.KeyPrefix, key)
	words := transcriptScript.call(keys, from, most)
	var asked *command
	err := s.run(ctx, func() *command {
		asked = &command{key: keys[0], script: transcriptScript, words: words, ofCall: true}
		return asked
	}, always)
	if err != nil {
		return conversation.Stored{}, err
	}
	stored, err := decodeStored(asked.reply)
	return stored, called(keys[0], err)
}

func decodeStored(reply any) (conversation.Stored, error) {
	parts, ok := reply.([]any)
	if !ok || len(parts) == 0 {
		return conversation.Stored{}, unexpected(reply)
	}
	now, ok := parts[0].(int64)
	if !ok {
		return conversation.Stored{}, unexpected(reply)
	}
	stored := conversation.Stored{Now: dedupe.Instant(now)}
	for i, part := range parts[1:] {
		text, ok := part.(string)
		switch {
		case !ok:
			return conversation.Stored{}, unexpected(part)
		case i == 0:
			stored.Head = []byte(text)
		default:
			stored.Messages = append(stored.Messages, []byte(text))
		}
	}
	return stored, nil
}

// maxScans is how many parts of the keys one page of a listing looks through: most
// are of records, and not of conversations.
const maxScans = 20

// headsAtOnce is how many heads are held at a time: each may be some hundred KiB, of
// which a listing keeps little.
const headsAtOnce = 32

// ListConversations implements conversation.Store. It walks over the keys as
// ListUnknown does.
func (s *Store) ListConversations(ctx context.Context, tenant, from string, most int) (page conversation.Page, err error) {
	prefix := s.options.KeyPrefix + "conversation/{" + string(appendComponent(nil, tenant)) + "/"
	for range maxScans {
		err := persist(ctx, func() error {
			server, keys, next, err := s.scan(ctx, from, globEscaped(prefix)+"*", most)
			if err != nil {
				return err
			}
			page.Next = next
			page.Found = nil
			for some := range slices.Chunk(keys, headsAtOnce) {
				found, err := s.heads(ctx, server, prefix, some)
				if err != nil {
					return err
				}
				page.Found = append(page.Found, found...)
			}
			slices.SortFunc(page.Found, func(a, b conversation.Listed) int { return strings.Compare(a.ID, b.ID) })
			return nil
		})
		if err != nil {
			return conversation.Page{}, err
		}
		if from = page.Next; from == "" || len(page.Found) > 0 {
			break
		}
	}
	return page, nil
}

// heads reads the heads of conversations.
func (s *Store) heads(ctx context.Context, server redis.Cmdable, prefix string, keys []string) ([]conversation.Listed, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	heads := make([]*redis.StringCmd, len(keys))
	// Its error is the first of the commands' own, which are looked at below.
	_, _ = server.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			heads[i] = p.Get(ctx, key)
		}
		return nil
	})
	var found []conversation.Listed
	for i, head := range heads {
		text, err := head.Result()
		if errors.Is(err, redis.Nil) {
			continue // it has expired since
		}
		one := conversation.Listed{ID: strings.TrimSuffix(strings.TrimPrefix(keys[i], prefix), "}")}
		if err = refused(keys[i], err); err != nil && !dedupe.IsCorrupt(err) {
			return nil, err
		}
		if id, escape := url.PathUnescape(one.ID); escape == nil {
			one.ID = id
		} else if err == nil {
			err = fmt.Errorf("%w: %q is no key of a conversation", dedupe.ErrCorrupt, keys[i])
		}
		if one.Err = err; err == nil {
			one.Head = conversation.Brief([]byte(text))
		}
		found = append(found, one)
	}
	return found, nil
}
