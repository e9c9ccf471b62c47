package redisstore

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
)

// conversationKeys are the keys of a conversation: of its head, and of the list of its
// messages, both in the slot of its calls.
func conversationKeys(prefix string, k conversation.Key) (head, messages string) {
	in := shardOf(k.Tenant, k.ID)
	return string(appendKey(nil, prefix, "conversation/", in, k.Tenant, k.ID)), string(appendKey(nil, prefix, "messages/", in, k.Tenant, k.ID))
}

// WriteConversation implements conversation.Store. With WaitReplicas it waits for them.
// Nothing is written when the head is another, or what it closes.
func (s *Store) WriteConversation(ctx context.Context, w conversation.Write) (written bool, err error) {
	head, messages := conversationKeys(s.options.KeyPrefix, w.Key)
	bytes := len(w.Head)
	for _, m := range w.Messages {
		bytes += len(m)
	}
	var step *dedupe.Step
	step = own(bytes, func(r *rows) {
		at, list, ttl := r.believe([]byte(head), string(w.Was)), r.other([]byte(messages)), w.TTL.Milliseconds()
		before := r.read[at].text
		if step.Binds = before == string(w.Head); step.Binds {
			// It is written again: what a WAIT says covers this answer then too.
			r.set(at, before, w.TTL)
			r.write('e', list, ttl, nil)
			return
		}
		if before != string(w.Was) {
			return
		}
		if before == "" { // messages without a head are of a conversation that has expired
			r.write('S', list, 0, nil)
		}
		r.write('n', list, w.After, nil)
		for _, m := range w.Messages {
			r.write('R', list, 0, m)
		}
		r.write('e', list, ttl, nil)
		if !dedupe.Shut(r, w.Closings) {
			r.writes = r.writes[:0]
			return
		}
		r.set(at, string(w.Head), w.TTL)
		step.Binds = true
	})
	return dedupe.AnswerOf(&step.Binds, s.run(ctx, head, step))
}

// ReadConversation implements conversation.Store.
func (s *Store) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	head, messages := conversationKeys(s.options.KeyPrefix, key)
	var stored conversation.Stored
	return dedupe.AnswerOf(&stored, s.run(ctx, head, own(0, func(r *rows) {
		r.write('g', r.other([]byte(head)), 1, nil)
		// No list is longer, and what is far longer is no number to the script.
		r.write('M', r.other([]byte(messages)), min(from, math.MaxUint32), text(strconv.Itoa(most)))
		r.heard = func(at time.Time, told []string) {
			stored = conversation.Stored{Now: at}
			if told[0] == "" {
				return // messages without a head are of a conversation that has expired
			}
			stored.Head = []byte(told[0])
			for _, m := range told[1:] {
				stored.Messages = append(stored.Messages, []byte(m))
			}
		}
	})))
}

// maxScans is how many parts of the keys one page of a listing looks through: most
// are of records, and not of conversations.
const maxScans = 20

// ListConversations implements conversation.Store. It walks over the keys as
// ListOpen does.
func (s *Store) ListConversations(ctx context.Context, tenant, from string, most int) (page conversation.Page, err error) {
	pattern := escaped(s.options.KeyPrefix+"conversation/") + "{???}/" + escaped(url.QueryEscape(tenant)) + "/*"
	for range maxScans {
		page.Next, err = s.scan(ctx, from, pattern, int64(most), -1, func(key, text string, err error) {
			page.Found = append(page.Found, briefly(key, text, err))
		})
		if err != nil {
			return conversation.Page{}, err
		}
		if from = page.Next; from == "" || len(page.Found) > 0 {
			break
		}
	}
	slices.SortFunc(page.Found, func(a, b conversation.Listed) int { return strings.Compare(a.ID, b.ID) })
	page.Found = slices.CompactFunc(page.Found, func(a, b conversation.Listed) bool { return a.ID == b.ID })
	return page, nil
}

// briefly is a conversation as a listing has it.
func briefly(key, head string, err error) conversation.Listed {
	found := conversation.Listed{ID: key[strings.LastIndexByte(key, '/')+1:], Err: err}
	if id, odd := url.QueryUnescape(found.ID); odd == nil {
		found.ID = id
	} else if err == nil {
		found.Err = fmt.Errorf("%w: %q is no key of a conversation", dedupe.ErrCorrupt, key)
	}
	if found.Err == nil {
		found.Head = conversation.Brief([]byte(head))
	}
	return found
}
