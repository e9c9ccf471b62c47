package embedded

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/sidecall/sidecall/conversation"
	"github.com/sidecall/sidecall/dedupe"
)

// conversationKey is the name of a conversation's bucket.
func conversationKey(k conversation.Key) []byte { return appendComponents(nil, k.Tenant, k.ID) }

// WriteConversation implements conversation.Store. It returns when all of it is on the
// disk.
func (s *Store) WriteConversation(ctx context.Context, w conversation.Write) (written bool, err error) {
	key := conversationKey(w.Key)
	size := len(key) + len(w.Head)
	for _, m := range w.Messages {
		size += len(m)
	}
	for _, c := range w.Closings {
		size += dedupe.StoredBytes + len(c.Result)
	}
	return found(
		func(t *txn) (bool, error) { return t.writeConversation(key, &w) },
		func(apply func(t *txn) error) error { return s.do(ctx, newOperation(dedupe.Begins, size, apply)) })
}

func (t *txn) writeConversation(key []byte, w *conversation.Write) (written bool, err error) {
	d, err := t.document(t.conversations, key)
	if err != nil || bytes.Equal(d.text, w.Head) {
		return err == nil, err
	}
	if !bytes.Equal(d.text, w.Was) || d.messages != w.After {
		return false, nil
	}
	if shut, err := dedupe.Shut(t, w.Closings); !shut || err != nil {
		return false, err
	}
	t.writes++
	if d.bucket == nil {
		if d, err = t.begin(t.conversations, t.conversationExpiry, key, w.TTL); err != nil {
			return false, err
		}
	}
	return true, d.append(w.Messages, w.Head, t.now.Add(w.TTL))
}

// ReadConversation implements conversation.Store.
func (s *Store) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	name := conversationKey(key)
	return read(ctx, s, func(t *txn) (conversation.Stored, error) { return t.readConversation(name, from, most) })
}

func (t *txn) readConversation(key []byte, from int64, most int) (conversation.Stored, error) {
	stored := conversation.Stored{Now: t.now}
	d, err := t.document(t.conversations, key)
	if err != nil || d.bucket == nil {
		return stored, err
	}
	stored.Head = bytes.Clone(d.text)
	for at, size := from, 0; most > 0 && at < d.messages; at++ {
		message, err := d.read(at)
		if err != nil {
			return conversation.Stored{}, err
		}
		if size += len(message); size > most && at > from {
			break
		}
		stored.Messages = append(stored.Messages, message)
	}
	return stored, nil
}

// ListConversations implements conversation.Store, in the order of the ids.
func (s *Store) ListConversations(ctx context.Context, tenant, from string, most int) (conversation.Page, error) {
	after, err := hex.DecodeString(from)
	if err != nil {
		return conversation.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	return read(ctx, s, func(t *txn) (conversation.Page, error) { return t.listConversations(tenant, after, most) })
}

// listConversations looks at those of a tenant after one. Expired ones, which are soon
// swept, are passed over, and count, so that the work of a page is bounded.
func (t *txn) listConversations(tenant string, after []byte, most int) (conversation.Page, error) {
	var page conversation.Page
	prefix := appendComponents(nil, tenant)
	from := prefix
	if bytes.HasPrefix(after, prefix) {
		from = append(bytes.Clone(after), 0) // keys end with 0 1: none is between
	}
	c := t.conversations.Cursor()
	looked := 0
	var last []byte
	for key, _ := c.Seek(from); bytes.HasPrefix(key, prefix); key, _ = c.Next() {
		if len(page.Found) == most || looked == listBatch {
			page.Next = hex.EncodeToString(last)
			break
		}
		looked++
		last = bytes.Clone(key)
		d, err := t.document(t.conversations, last)
		if d.bucket == nil && err == nil {
			continue
		}
		one, err := listed(last, d.text, err)
		if err != nil {
			return conversation.Page{}, err
		}
		page.Found = append(page.Found, one)
	}
	return page, nil
}

// listed is a conversation as a listing has it: what is damaged is so by itself. err is
// what the reading of its head said.
func listed(key, head []byte, err error) (conversation.Listed, error) {
	if err != nil && !errors.Is(err, dedupe.ErrCorrupt) {
		return conversation.Listed{}, err
	}
	one := conversation.Listed{Err: err}
	if one.ID, err = conversationID(key); err != nil {
		one.ID, one.Err = hex.EncodeToString(key), err
	}
	if one.Err == nil {
		one.Head = bytes.Clone(conversation.Brief(head))
	}
	return one, nil
}

// conversationID reads the id in what conversationKey has written.
func conversationID(key []byte) (string, error) {
	k, err := decodeKey(append(bytes.Clone(key), 0, 1, 0, 1)) // of a call with no turn and no id
	return k.Conversation, err
}
