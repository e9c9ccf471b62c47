package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sidecall/sidecall/conversation"
	"github.com/sidecall/sidecall/dedupe"
)

// A conversation is a bucket of its own, as an output is: a head, and its messages in
// pieces under their number and that of the piece. What is appended comes behind, so
// that what is there already is not written again.
const messageKeyBytes = 8 + 4

var conversationHeadKey = []byte("head")

// conversationHead is the head: when all of it expires, how many messages there are,
// how many bytes they have, and what package conversation says of it.
type conversationHead struct {
	expires         int64 // milliseconds
	messages, bytes int64
	text            []byte
}

func (h *conversationHead) encode() []byte {
	b := make([]byte, 0, 3*8+len(h.text))
	for _, n := range [...]int64{h.expires, h.messages, h.bytes} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return append(b, h.text...)
}

func decodeConversationHead(value []byte) (conversationHead, error) {
	if len(value) < 3*8 {
		return conversationHead{}, fmt.Errorf("%w: the head of a conversation", dedupe.ErrCorrupt)
	}
	number := func(at int) int64 { return int64(binary.BigEndian.Uint64(value[at:])) }
	return conversationHead{expires: number(0), messages: number(8), bytes: number(16), text: value[24:]}, nil
}

// conversationKey is the name of a conversation's bucket.
func conversationKey(k conversation.Key) []byte { return appendComponents(nil, k.Tenant, k.ID) }

// pieceKey names a piece of a message.
func pieceKey(message int64, piece int) []byte {
	return binary.BigEndian.AppendUint32(bigEndian(uint64(message)), uint32(piece))
}

// conversation returns the bucket of a conversation and its head; nil when there is
// none as of now.
func (t *txn) conversation(key []byte) (*bbolt.Bucket, conversationHead, error) {
	b := t.conversations.Bucket(key)
	if b == nil {
		return nil, conversationHead{}, nil
	}
	head, err := t.conversationHead(key, b)
	if err != nil || !t.now.Before(dedupe.Instant(head.expires)) {
		return nil, conversationHead{}, err
	}
	return b, head, nil
}

func (t *txn) conversationHead(key []byte, b *bbolt.Bucket) (conversationHead, error) {
	value, err := verified(slices.Concat(key, conversationHeadKey), b.Get(conversationHeadKey))
	if err != nil {
		return conversationHead{}, fmt.Errorf("%w: the head of a conversation", err)
	}
	return decodeConversationHead(value)
}

// WriteConversation implements conversation.Store. It returns when all of it is on the
// disk.
func (s *Store) WriteConversation(ctx context.Context, w conversation.Write) (bool, error) {
	written, key, bytes := false, conversationKey(w.Key), len(w.Head)
	for _, m := range w.Messages {
		bytes += len(m)
	}
	for _, c := range w.Closings {
		bytes += dedupe.StoredBytes + len(c.Result)
	}
	if err := s.do(ctx, newOperation(dedupe.Begins, bytes+len(key), func(t *txn) (err error) {
		written, err = t.writeConversation(key, &w)
		return err
	})); err != nil { // the committer may still be writing
		return false, err
	}
	return written, nil
}

func (t *txn) writeConversation(key []byte, w *conversation.Write) (written bool, err error) {
	b, head, err := t.conversation(key)
	if err != nil || bytes.Equal(head.text, w.Head) {
		return err == nil, err
	}
	if !bytes.Equal(head.text, w.Was) || head.messages != w.After {
		return false, nil
	}
	if shut, err := dedupe.Shut(t, w.Closings); !shut || err != nil {
		return false, err
	}
	t.writes++
	if b == nil {
		if b, err = t.beginConversation(key, w.TTL); err != nil {
			return false, err
		}
	}
	return true, t.converse(key, b, head, w)
}

// beginConversation makes the bucket of a conversation, for what may have been there.
// Its place in the queue of those to expire is corrected when it is due.
func (t *txn) beginConversation(key []byte, ttl time.Duration) (*bbolt.Bucket, error) {
	if t.conversations.Bucket(key) != nil { // it has expired, and keeps its place
		if err := t.conversations.DeleteBucket(key); err != nil {
			return nil, err
		}
	} else if err := t.queue(t.conversationExpiry, t.now.Add(ttl), key); err != nil {
		return nil, err
	}
	return t.conversations.CreateBucket(key)
}

// converse writes the messages behind those that are there, and the head.
func (t *txn) converse(key []byte, b *bbolt.Bucket, head conversationHead, w *conversation.Write) error {
	b.FillPercent = fullPages
	for _, message := range w.Messages {
		for n, rest := 0, message; n == 0 || len(rest) > 0; n++ {
			piece := rest[:min(pieceSize, len(rest))]
			rest = rest[len(piece):]
			name := pieceKey(head.messages, n)
			if err := b.Put(name, sealed(slices.Concat(key, name), piece)); err != nil {
				return err
			}
		}
		head.messages++
		head.bytes += int64(len(message))
	}
	head.expires, head.text = dedupe.Millis(t.now.Add(w.TTL)), w.Head
	return b.Put(conversationHeadKey, sealed(slices.Concat(key, conversationHeadKey), head.encode()))
}

// ReadConversation implements conversation.Store.
func (s *Store) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	var stored conversation.Stored
	name := conversationKey(key)
	err := s.read(ctx, func(t *txn) (err error) {
		stored, err = t.readConversation(name, from, most)
		return err
	})
	if err != nil { // the committer may still be looking
		return conversation.Stored{}, err
	}
	return stored, nil
}

func (t *txn) readConversation(key []byte, from int64, most int) (conversation.Stored, error) {
	stored := conversation.Stored{Now: t.now}
	b, head, err := t.conversation(key)
	if err != nil || b == nil {
		return stored, err
	}
	stored.Head = bytes.Clone(head.text)
	for at, size := from, 0; most > 0 && at < head.messages; at++ {
		message, err := readMessage(key, b, at)
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

// readMessage puts a message together.
func readMessage(key []byte, b *bbolt.Bucket, at int64) ([]byte, error) {
	prefix := bigEndian(uint64(at))
	message, n := []byte(nil), 0
	c := b.Cursor()
	for name, value := c.Seek(prefix); len(name) == messageKeyBytes && bytes.HasPrefix(name, prefix); name, value = c.Next() {
		if !bytes.Equal(name, pieceKey(at, n)) {
			break
		}
		piece, err := verified(slices.Concat(key, name), value)
		if err != nil {
			return nil, fmt.Errorf("%w: a message of a conversation", err)
		}
		message = append(message, piece...)
		n++
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: a message of a conversation is missing", dedupe.ErrCorrupt)
	}
	return message, nil
}

// ListConversations implements conversation.Store, in the order of the ids.
func (s *Store) ListConversations(ctx context.Context, tenant, from string, most int) (conversation.Page, error) {
	after, err := hex.DecodeString(from)
	if err != nil {
		return conversation.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	var page conversation.Page
	err = s.read(ctx, func(t *txn) (err error) {
		page, err = t.listConversations(tenant, after, most)
		return err
	})
	if err != nil { // the committer may still be looking
		return conversation.Page{}, err
	}
	return page, nil
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
		b, head, err := t.conversation(last)
		if b == nil && err == nil {
			continue
		}
		one, err := listed(last, head, err)
		if err != nil {
			return conversation.Page{}, err
		}
		page.Found = append(page.Found, one)
	}
	return page, nil
}

// listed is a conversation as a listing has it: what is damaged is so by itself. err is
// what the reading of its head said.
func listed(key []byte, head conversationHead, err error) (conversation.Listed, error) {
	if err != nil && !errors.Is(err, dedupe.ErrCorrupt) {
		return conversation.Listed{}, err
	}
	one := conversation.Listed{Err: err}
	if one.ID, err = conversationID(key); err != nil {
		one.ID, one.Err = hex.EncodeToString(key), err
	}
	if one.Err == nil {
		one.Head = bytes.Clone(conversation.Brief(head.text))
	}
	return one, nil
}

// conversationID reads the id in what conversationKey has written.
func conversationID(key []byte) (string, error) {
	k, err := decodeKey(append(bytes.Clone(key), 0, 1, 0, 1)) // of a call with no turn and no id
	return k.Conversation, err
}

// sweepConversations removes at most limit conversations whose time is over, and no
// more than sweepBytes, beside the last of them; one that was given more time since it
// was queued is queued again.
func (t *txn) sweepConversations(limit int) error {
	removed := int64(0)
	for range limit {
		place, value := due(t.conversationExpiry, t.now)
		if place == nil || removed >= sweepBytes {
			return nil
		}
		t.writes++
		// What bbolt returns is only valid until the next change.
		place, key := bytes.Clone(place), bytes.Clone(value)
		if err := t.conversationExpiry.Delete(place); err != nil {
			return err
		}
		b := t.conversations.Bucket(key)
		if b == nil {
			return fmt.Errorf("%w: a conversation that is to expire is missing", dedupe.ErrCorrupt)
		}
		head, err := t.conversationHead(key, b)
		if err != nil {
			return err
		}
		if expires := dedupe.Instant(head.expires); t.now.Before(expires) {
			err = t.queue(t.conversationExpiry, expires, key)
		} else {
			removed += head.bytes
			err = t.conversations.DeleteBucket(key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// conversation checks a conversation and that all its pieces are there.
func (c *checker) conversation(key, value []byte) error {
	var head conversationHead
	var messages, size int64
	headed := false
	next := 0 // piece of the message before
	err := c.bucket(value, func(name, value []byte, isBucket bool) error {
		body, err := verified(slices.Concat(key, name), value)
		switch {
		case err != nil:
			return err
		case isBucket:
			return corrupt("a value in %s is damaged", conversationsBucket)
		case bytes.Equal(name, conversationHeadKey):
			headed = true
			head, err = decodeConversationHead(body)
			return err
		case bytes.Equal(name, pieceKey(messages, 0)):
			messages++
			next = 1
		case messages > 0 && bytes.Equal(name, pieceKey(messages-1, next)):
			next++
		default:
			return corrupt("a piece of a conversation is missing")
		}
		size += int64(len(body))
		return nil
	})
	if err == nil && (!headed || head.messages != messages || head.bytes != size) {
		err = corrupt("a conversation of %d messages and %d bytes has %d and %d", head.messages, head.bytes, messages, size)
	}
	c.add(&c.conversations, key)
	return err
}
