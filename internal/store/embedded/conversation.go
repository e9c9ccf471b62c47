package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
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
	if err := s.do(ctx, newOperation(dedupe.Begins, size, func(t *txn) (err error) {
		done, err = t.writeConversation(key, &w)
		return err
	})); err != nil {
		return false, err // it may still be written
	}
	return done, nil
}

func (t *txn) writeConversation(key []byte, w *conversation.Write) (written bool, err error) {
	count, text, err := t.talk(key)
	if err != nil || bytes.Equal(text, w.Head) {
		return err == nil, err
	}
	if !bytes.Equal(text, w.Was) || int64(count) != w.After {
		return false, nil
	}
	if shut, err := dedupe.Shut(t, w.Closings); !shut || err != nil {
		return false, err
	}
	expires := t.now.Add(w.TTL)
	for _, message := range w.Messages {
		if err := t.set(messageRow, messageKey(key, count), expires, message); err != nil {
			return false, err
		}
		count++
	}
	err = t.set(conversationRow, key, expires, bigEndian(count), w.Head)
	return err == nil, err
}

// bigEndian is a number before what it counts.
func bigEndian(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// talk returns how many messages a conversation has, and the text of its head; none where
// there is none.
func (t *txn) talk(key []byte) (count int, text []byte, err error) {
	value, _, err := t.get(conversationRow, key)
	if err != nil || value == nil {
		return 0, nil, err
	}
	count, text = decodeTalk(value)
	return count, text, nil
}

// ReadConversation implements conversation.Store.
func (s *Store) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	name := conversationKey(key)
	return read(ctx, s, func(t *txn) (conversation.Stored, error) {
		count, text, err := t.talk(name)
		stored := conversation.Stored{Head: text, Now: t.now}
		if err != nil || text == nil {
			return stored, err
		}
		for at, size := from, 0; most > 0 && at < int64(count); at++ {
			message, _, err := t.get(messageRow, messageKey(name, int(at)))
			if err == nil && message == nil {
				err = t.fail(corrupt("a message of a conversation is missing"))
			}
			if err != nil {
				return conversation.Stored{}, err
			}
			if size += len(message); size > most && at > from {
				break
			}
			stored.Messages = append(stored.Messages, message)
		}
		return stored, nil
	})
}

// ListConversations implements conversation.Store, in the order of the ids. Expired ones, which
// are soon let go of, are passed over, and count, so that the work of a page is bounded.
func (s *Store) ListConversations(ctx context.Context, tenant, from string, most int) (conversation.Page, error) {
	after, err := hex.DecodeString(from)
	if err != nil {
		return conversation.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	return read(ctx, s, func(t *txn) (page conversation.Page, err error) {
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
			_, text, err := t.talk([]byte(name))
			if err != nil {
				return conversation.Page{}, err
			}
			if text == nil {
				continue
			}
			page.Found = append(page.Found, conversation.Listed{ID: name[len(prefix):], Head: conversation.Brief(text)})
		}
		return page, nil
	})
}
