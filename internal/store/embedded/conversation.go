package embedded

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
)

// WriteConversation implements conversation.Store. It returns when all of it is on the
// disk.
func (s *Store) WriteConversation(ctx context.Context, w conversation.Write) (written bool, err error) {
	key := conversationKey(w.Key)
	size := len(key) + len(w.Head)
	for _, m := range w.Messages {
		size += len(m)
	}
	for _, c := range w.Closings {
		size += dedupe.StoredBytes + len(c.Result) + len(c.Terms)*len(dedupe.Term{})
	}
	var done bool
	return dedupe.AnswerOf(&done, s.do(ctx, own(dedupe.Begins, size, func(t *txn) { done = t.writeConversation(key, &w) })))
}

func (t *txn) writeConversation(key []byte, w *conversation.Write) (written bool) {
	count, text := t.talk(key)
	if bytes.Equal(text, w.Head) {
		return true
	}
	if !bytes.Equal(text, w.Was) || int64(count) != w.After || !dedupe.Shut(t, w.Closings) {
		return false
	}
	expires := t.now.Add(w.TTL)
	for _, message := range w.Messages {
		t.set(messageRow, messageKey(key, count), expires, message)
		count++
	}
	t.set(conversationRow, key, expires, bigEndian(count), w.Head)
	return true
}

// talk returns how many messages a conversation has, and the text of its head; none where
// there is none.
func (t *txn) talk(key []byte) (count int, text []byte) {
	if value, _ := t.get(conversationRow, key); value != nil {
		return decodeTalk(value)
	}
	return 0, nil
}

// ReadConversation implements conversation.Store.
func (s *Store) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	name := conversationKey(key)
	return read(ctx, s, func(t *txn) conversation.Stored {
		count, text := t.talk(name)
		stored := conversation.Stored{Head: text, Now: t.now}
		for at, size := from, 0; most > 0 && at < int64(count); at++ {
			message, _ := t.get(messageRow, messageKey(name, int(at)))
			if message == nil && t.failed == nil {
				t.Fail(t.fail(corrupt("a message of a conversation is missing")))
			}
			if t.failed != nil {
				break
			}
			if size += len(message); size > most && at > from {
				break
			}
			stored.Messages = append(stored.Messages, message)
		}
		return stored
	})
}

// ListConversations implements conversation.Store, in the order of the ids. Expired ones, which
// are soon let go of, are passed over, and count, so that the work of a page is bounded.
func (s *Store) ListConversations(ctx context.Context, tenant, from string, most int) (conversation.Page, error) {
	after, err := hex.DecodeString(from)
	if err != nil {
		return conversation.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	return read(ctx, s, func(t *txn) (page conversation.Page) {
		prefix, last, looked := string(keyOf(tenant, "")), "", 0
		for name := range t.index.talks.from(max(prefix, string(after)+"\x00")) {
			if !strings.HasPrefix(name, prefix) {
				break
			}
			if len(page.Found) == most || looked == listBatch {
				page.Next = hex.EncodeToString([]byte(last))
				break
			}
			last, looked = name, looked+1
			if _, text := t.talk([]byte(name)); text != nil {
				page.Found = append(page.Found, conversation.Listed{ID: name[len(prefix):], Head: conversation.Brief(text)})
			}
		}
		return page
	})
}
