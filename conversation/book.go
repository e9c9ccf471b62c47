package conversation

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sidecall/sidecall/provider"
	"github.com/sidecall/sidecall/tool"
)

const (
	maxIDBytes = 256
	// maxAppend bounds the messages of one append.
	maxAppend = 4096
	// maxRaces bounds how often an append is decided anew because another one came
	// before it. The second time its version cannot be the expected one any more.
	maxRaces = 3
)

// Limits bound what is kept of a conversation.
type Limits struct {
	// TTL is how long a conversation is kept after its last message.
	TTL time.Duration
	// Messages and Bytes are the most that it may have.
	Messages int64
	Bytes    int64
}

// Book keeps conversations in a store.
type Book struct {
	Store  Store
	Limits Limits
	// Now is the clock; nil is the system's.
	Now func() time.Time

	surveys surveys
}

// Append is what comes to a conversation.
type Append struct {
	Key Key
	// Expected is the version that it follows.
	Expected int64
	Provider provider.Format
	// Turn is the turn id of the calls in it.
	Turn     string
	Messages []string
}

// Append adds messages and returns the version after them. Sent again, it returns the
// same. The error is an *Invalid, a *Stale, a *Full, or the store's.
func (b *Book) Append(ctx context.Context, a Append) (version int64, err error) {
	if err := a.validate(); err != nil {
		return 0, err
	}
	for range maxRaces {
		before, stored, err := b.head(ctx, a.Key)
		if err != nil {
			return 0, err
		}
		w, err := b.write(before, stored, &a)
		if err != nil {
			return 0, err
		}
		written, err := b.Store.WriteConversation(ctx, w)
		if err != nil {
			return 0, err
		}
		if written {
			return a.Expected + int64(len(a.Messages)), nil
		}
	}
	return 0, fmt.Errorf("%w: others append to it at the same time", ErrBusy)
}

// write is what an append writes. One whose answer was lost writes what is there
// already, for it may not be where it has to be before it counts: on every replica.
func (b *Book) write(before Head, stored []byte, a *Append) (Write, error) {
	if before.Last == a.name() && before.Version > a.Expected {
		return Write{Key: a.Key, Was: stored, Head: stored, After: before.Version, TTL: b.Limits.TTL}, nil
	}
	w, err := b.follow(before, a)
	w.Was = stored
	return w, err
}

// follow makes what an append writes after a head.
func (b *Book) follow(before Head, a *Append) (Write, error) {
	if before.Version != a.Expected {
		return Write{}, &Stale{Expected: a.Expected, Version: before.Version}
	}
	if before.Version > 0 && before.Provider != a.Provider {
		return Write{}, invalid("provider", "is %s, and the conversation is one of %s", tool.Quote(string(a.Provider)), before.Provider)
	}
	now := b.now()
	after := Head{
		Version: before.Version + int64(len(a.Messages)), Provider: a.Provider, Bytes: before.Bytes,
		StartedAt: before.StartedAt, UpdatedAt: now, CalledAt: before.CalledAt, Last: a.name(),
	}
	if before.Version == 0 {
		after.StartedAt = now
	}
	w := Write{Key: a.Key, After: before.Version, TTL: b.Limits.TTL}
	follows := tracker{format: a.Provider, open: before.Open, turn: a.Turn}
	for i, raw := range a.Messages {
		follows.at, follows.field = before.Version+int64(i), fmt.Sprintf("messages_json[%d]", i)
		if err := follows.read(raw); err != nil {
			return Write{}, err
		}
		after.Bytes += int64(len(raw))
		w.Messages = append(w.Messages, Message{JSON: raw, Turn: a.Turn}.encode(follows.at))
	}
	after.Open = follows.open
	if older := len(after.Open) > 0 && after.Open[0].At < before.Version; follows.called && !older {
		after.CalledAt = now // of the oldest that is open: a later one makes it no younger
	}
	if err := b.room(&after); err != nil {
		return Write{}, err
	}
	var err error
	w.Head, err = after.encode()
	return w, err
}

func (b *Book) room(after *Head) error {
	switch {
	case after.Version > b.Limits.Messages:
		return &Full{Setting: "conversations.max_messages", Why: fmt.Sprintf("the conversation would have %d messages, and at most %d are kept", after.Version, b.Limits.Messages)}
	case after.Bytes > b.Limits.Bytes:
		return &Full{Setting: "conversations.max_bytes", Why: fmt.Sprintf("the conversation would have %d bytes, and at most %d are kept", after.Bytes, b.Limits.Bytes)}
	}
	return nil
}

// Load returns a conversation with its messages from one on, as many as have no more
// than most bytes, and at least one. The error is ErrNone, an *Invalid, or the store's.
func (b *Book) Load(ctx context.Context, key Key, from int64, most int) (Head, []Message, error) {
	if err := key.validate(); err != nil {
		return Head{}, nil, err
	}
	if from < 0 {
		return Head{}, nil, invalid("from_version", "is %d: expected 0, or next_version of the page before", from)
	}
	stored, err := b.Store.ReadConversation(ctx, key, from, most)
	if err != nil {
		return Head{}, nil, err
	}
	if len(stored.Head) == 0 {
		return Head{}, nil, ErrNone
	}
	head, err := decodeHead(stored.Head)
	if err != nil {
		return Head{}, nil, err
	}
	if from > head.Version {
		return Head{}, nil, invalid("from_version", "is %d, and the conversation has %d messages", from, head.Version)
	}
	if most > 0 && from < head.Version && len(stored.Messages) == 0 || from+int64(len(stored.Messages)) > head.Version {
		return Head{}, nil, fmt.Errorf("%w: it has %d messages, and from %d on there are %d", ErrCorrupt, head.Version, from, len(stored.Messages))
	}
	messages := make([]Message, len(stored.Messages))
	for i, m := range stored.Messages {
		if messages[i], err = decodeMessage(from+int64(i), m); err != nil {
			return Head{}, nil, err
		}
	}
	return head, messages, nil
}

// Summary is a conversation of a listing.
type Summary struct {
	ID string
	// Head is empty where Err says why it cannot be read.
	Head Head
	Err  error
}

// List lists conversations of a tenant; from and next are those of a Page.
func (b *Book) List(ctx context.Context, tenant, from string, most int) (found []Summary, next string, err error) {
	page, err := b.Store.ListConversations(ctx, tenant, from, most)
	if err != nil {
		return nil, "", err
	}
	for _, l := range page.Found {
		one := Summary{ID: l.ID, Err: l.Err}
		if one.Err == nil {
			one.Head, one.Err = decodeHead(l.Head)
		}
		found = append(found, one)
	}
	return found, page.Next, nil
}

// head reads the head of a conversation; the zero one where there is none.
func (b *Book) head(ctx context.Context, key Key) (head Head, stored []byte, err error) {
	read, err := b.Store.ReadConversation(ctx, key, 0, 0)
	if err != nil || len(read.Head) == 0 {
		return Head{}, nil, err
	}
	head, err = decodeHead(read.Head)
	return head, read.Head, err
}

func (b *Book) now() time.Time {
	if b.Now != nil {
		return b.Now().UTC()
	}
	return time.Now().UTC()
}

func (k Key) validate() error { return unfit("conversation_id", k.ID, true) }

// unfit says why a text can be no id.
func unfit(field, id string, required bool) error {
	switch {
	case id == "" && required:
		return invalid(field, "is missing")
	case len(id) > maxIDBytes:
		return invalid(field, "has %d bytes: at most %d", len(id), maxIDBytes)
	case !utf8.ValidString(id):
		return invalid(field, "is no UTF-8")
	}
	return nil
}

func (a *Append) validate() error {
	if err := a.Key.validate(); err != nil {
		return err
	}
	if err := unfit("turn_id", a.Turn, false); err != nil {
		return err
	}
	switch {
	case !slices.Contains(provider.Formats(), a.Provider):
		return invalid("provider", "there is none called %s: expected anthropic, openai or openai-responses", tool.Quote(string(a.Provider)))
	case a.Expected < 0:
		return invalid("expected_version", "is %d: a new conversation is at version 0", a.Expected)
	case len(a.Messages) == 0:
		return invalid("messages_json", "is empty: nothing would be appended")
	case len(a.Messages) > maxAppend:
		return invalid("messages_json", "has %d messages: at most %d in one request", len(a.Messages), maxAppend)
	}
	for i, m := range a.Messages {
		field := fmt.Sprintf("messages_json[%d]", i)
		if len(m) > MaxMessageBytes {
			return invalid(field, "has %d bytes: a message has at most %d", len(m), MaxMessageBytes)
		}
		if !utf8.ValidString(m) {
			return invalid(field, "is no UTF-8")
		}
	}
	return nil
}

// name is what an append is known by.
func (a *Append) name() Last {
	sum := sha256.New()
	for _, part := range append([]string{string(a.Provider), a.Turn}, a.Messages...) {
		_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // a hash never fails
		_, _ = sum.Write([]byte(part))                                          // as above
	}
	return Last{After: a.Expected, Sum: hex.EncodeToString(sum.Sum(nil))}
}
