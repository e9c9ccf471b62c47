package redisstore

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/conversation"
	"github.com/sidecall/sidecall/dedupe"
)

var _ conversation.Store = (*Store)(nil)

// conversationKeys are the keys of a conversation: of its head, and of the list of its
// messages, both in the slot of its calls.
func conversationKeys(prefix string, k conversation.Key) (head, messages string) {
	return string(appendKey(nil, prefix, "conversation/", 2, k.Tenant, k.ID)), string(appendKey(nil, prefix, "messages/", 2, k.Tenant, k.ID))
}

// WriteConversation implements conversation.Store. With WaitReplicas it waits for them.
func (s *Store) WriteConversation(ctx context.Context, w conversation.Write) (written bool, err error) {
	c := &writing{write: w}
	c.head, c.messages = conversationKeys(s.options.KeyPrefix, w.Key)
	weight := len(w.Head)
	for _, m := range w.Messages {
		weight += len(m)
	}
	for _, closing := range w.Closings {
		weight += dedupe.StoredBytes + len(closing.Result)
	}
	if err := s.run(ctx, c.head, c, weight); err != nil {
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

func (c *writing) Binds() bool { return c.written }

func (c *writing) Apply(of dedupe.Rows) error {
	r, w := of.(*rows), &c.write
	head, messages, ttl := r.believe([]byte(c.head), string(w.Was)), r.other([]byte(c.messages)), w.TTL.Milliseconds()
	before := r.read[head].text
	if c.written = before == string(w.Head); c.written {
		// It is written again: what a WAIT says covers this answer then too.
		r.set(head, before, w.TTL)
		r.write('e', messages, ttl, nil)
		return nil
	}
	if before != string(w.Was) {
		return nil
	}
	if before == "" { // messages without a head are of a conversation that has expired
		r.write('d', messages, 0, nil)
	}
	r.write('n', messages, w.After, nil)
	for _, m := range w.Messages {
		r.write('R', messages, 0, m)
	}
	r.write('e', messages, ttl, nil)
	shut, err := dedupe.Shut(r, w.Closings)
	if c.written = shut; !shut || err != nil {
		r.writes = r.writes[:0]
		return err
	}
	r.set(head, string(w.Head), w.TTL)
	return nil
}

// ReadConversation implements conversation.Store.
func (s *Store) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	c := &loading{from: from, most: text(strconv.Itoa(most))}
	c.head, c.messages = conversationKeys(s.options.KeyPrefix, key)
	if err := s.run(ctx, c.head, c, 0); err != nil {
		return conversation.Stored{}, err
	}
	return c.stored, nil
}

// loading is the step of who reads a conversation.
type loading struct {
	unbound
	head, messages string
	from           int64
	most           text
	stored         conversation.Stored
}

func (c *loading) Apply(of dedupe.Rows) error {
	r := of.(*rows)
	r.write('g', r.other([]byte(c.head)), 1, nil)
	r.write('M', r.other([]byte(c.messages)), c.from, c.most)
	r.heard = func(at time.Time, told []string) {
		c.stored = conversation.Stored{Now: at}
		if told[0] == "" {
			return // messages without a head are of a conversation that has expired
		}
		c.stored.Head = []byte(told[0])
		for _, m := range told[1:] {
			c.stored.Messages = append(c.stored.Messages, []byte(m))
		}
	}
	return nil
}

// maxScans is how many parts of the keys one page of a listing looks through: most
// are of records, and not of conversations.
const maxScans = 20

// ListConversations implements conversation.Store. It walks over the keys as
// ListUnknown does.
func (s *Store) ListConversations(ctx context.Context, tenant, from string, most int) (page conversation.Page, err error) {
	prefix := strings.TrimSuffix(string(appendKey(nil, s.options.KeyPrefix, "conversation/", 2, tenant, "")), "}")
	heads := func(p redis.Pipeliner, key string) *redis.StringCmd { return p.Get(ctx, key) }
	for range maxScans {
		err := persist(ctx, func() error {
			on, keys, next, err := s.scan(ctx, from, globEscaped(prefix)+"*", most)
			if err != nil {
				return err
			}
			page = conversation.Page{Next: next}
			return s.texts(ctx, on, keys, textsAtOnce, heads, func(key, text string, err error) {
				page.Found = append(page.Found, briefly(prefix, key, text, err))
			})
		})
		if err != nil {
			return conversation.Page{}, err
		}
		if from = page.Next; from == "" || len(page.Found) > 0 {
			break
		}
	}
	slices.SortFunc(page.Found, func(a, b conversation.Listed) int { return strings.Compare(a.ID, b.ID) })
	return page, nil
}

// briefly is a conversation as a listing has it.
func briefly(prefix, key, head string, err error) conversation.Listed {
	found := conversation.Listed{ID: strings.TrimSuffix(strings.TrimPrefix(key, prefix), "}"), Err: err}
	if id, odd := url.PathUnescape(found.ID); odd == nil {
		found.ID = id
	} else if err == nil {
		found.Err = fmt.Errorf("%w: %q is no key of a conversation", dedupe.ErrCorrupt, key)
	}
	if found.Err == nil {
		found.Head = conversation.Brief([]byte(head))
	}
	return found
}
