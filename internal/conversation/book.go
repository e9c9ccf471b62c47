package conversation

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	maxIDBytes = 256
	// maxAppend bounds the messages of one append: what a response becomes, at most.
	maxAppend = provider.MaxItems
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

// Book keeps conversations in a store. All its instants are by the store's clock.
type Book struct {
	Store  Store
	Limits Limits

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
	// ID is made by the client: the same append sent again has the same. One without is
	// not known again.
	ID string
	// Prompt is the prompt that it belongs to.
	Prompt string
	// Fence is asked when calls are answered; nil closes none.
	Fence Fence

	nonce string // of its head
}

// Append adds messages and returns the version after them. Sent again with its id, it
// returns the same, whatever has come after it. The error is an *Invalid, a *Stale, a
// *Full, a *Contradiction, or the store's.
func (b *Book) Append(ctx context.Context, a Append) (version int64, err error) {
	if err := a.validate(); err != nil {
		return 0, err
	}
	a.nonce = rand.Text()
	for range maxRaces {
		w, err := b.write(ctx, &a)
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

// write is what an append writes. One that is written already writes the head that is
// there: it may not be where it has to be before it counts, on every replica.
func (b *Book) write(ctx context.Context, a *Append) (Write, error) {
	stored, err := b.Store.ReadConversation(ctx, a.Key, a.Expected, 1)
	if err != nil {
		return Write{}, err
	}
	before, messages, err := decodeAll(stored, a.Expected)
	if err != nil {
		return Write{}, err
	}
	if len(messages) > 0 && a.ID != "" && messages[0].Append == a.name() {
		return Write{Key: a.Key, Was: stored.Head, Head: stored.Head, After: before.Version, TTL: b.Limits.TTL}, nil
	}
	w, answers, err := b.follow(before, a, stored.Now)
	if err == nil && len(answers) > 0 && a.Fence != nil {
		w.Closings, err = a.Fence(ctx, answers)
	}
	w.Was = stored.Head
	return w, err
}

// follow makes what an append writes after a head, and returns what it answers.
func (b *Book) follow(before Head, a *Append, now time.Time) (w Write, answers []Answer, err error) {
	if before.Version != a.Expected {
		return w, nil, &Stale{Field: "expected_version", Expected: a.Expected, Version: before.Version}
	}
	if before.Version > 0 && before.Provider != a.Provider {
		return w, nil, invalid("provider", "is %s, and the conversation is one of %s", tool.Quote(string(a.Provider)), before.Provider)
	}
	after := Head{
		Version: before.Version + int64(len(a.Messages)), Provider: a.Provider, Bytes: before.Bytes,
		StartedAt: before.StartedAt, UpdatedAt: now, CalledAt: before.CalledAt, Prompt: a.Prompt, Nonce: a.nonce,
	}
	if a.Prompt == "" && len(before.Open) > 0 {
		after.Prompt = before.Prompt // in which the turn goes on
	}
	if before.Version == 0 {
		after.StartedAt = now
	}
	w = Write{Key: a.Key, After: before.Version, TTL: b.Limits.TTL}
	follows := tracker{format: a.Provider, open: before.Open, turn: a.Turn}
	name := a.name()
	for i, raw := range a.Messages {
		follows.at, follows.field = before.Version+int64(i), fmt.Sprintf("messages_json[%d]", i)
		if err := follows.read(raw); err != nil {
			return w, nil, err
		}
		if follows.called && a.Turn == "" { // RunMessage makes them in one, in which nobody would look for them
			return w, nil, invalid("turn_id", "is missing: %s has calls, which are known by the turn_id that they are made with", follows.field)
		}
		said, err := answersIn(a.Provider, raw, follows.field, follows.answers)
		if answers = append(answers, said...); err == nil && len(answers) > provider.MaxCalls {
			err = invalid(follows.field, "answers more than %d calls with the messages before it: append it after them", provider.MaxCalls)
		}
		if err != nil {
			return w, nil, err
		}
		after.Bytes += int64(len(raw))
		w.Messages = append(w.Messages, Message{JSON: raw, Turn: a.Turn, Append: name}.encode(follows.at))
	}
	for i := range answers {
		if answers[i].At < before.Version {
			answers[i].Age = now.Sub(before.CalledAt)
		}
	}
	after.Open = follows.open
	if older := len(after.Open) > 0 && after.Open[0].At < before.Version; follows.called && !older {
		after.CalledAt = now // of the oldest that is open: a later one makes it no younger
	}
	if err := b.fits(&after); err != nil {
		return w, nil, err
	}
	w.Head, err = after.encode()
	return w, answers, err
}

func (b *Book) fits(after *Head) error {
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
	head, messages, _, err := b.LoadAt(ctx, key, from, most)
	return head, messages, err
}

// LoadAt is Load, and tells when that was.
func (b *Book) LoadAt(ctx context.Context, key Key, from int64, most int) (Head, []Message, time.Time, error) {
	if err := key.validate(); err != nil {
		return Head{}, nil, time.Time{}, err
	}
	if from < 0 {
		return Head{}, nil, time.Time{}, invalid("from_version", "is %d: expected 0, or next_version of the page before", from)
	}
	stored, err := b.Store.ReadConversation(ctx, key, from, most)
	if err != nil {
		return Head{}, nil, time.Time{}, err
	}
	if len(stored.Head) == 0 {
		return Head{}, nil, time.Time{}, ErrNone
	}
	head, messages, err := decodeAll(stored, from)
	switch {
	case err != nil:
	case from > head.Version:
		err = invalid("from_version", "is %d, and the conversation has %d messages", from, head.Version)
	case most > 0 && from < head.Version && len(messages) == 0 || from+int64(len(messages)) > head.Version:
		err = fmt.Errorf("%w: it has %d messages, and from %d on there are %d", ErrCorrupt, head.Version, from, len(messages))
	}
	if err != nil {
		return Head{}, nil, time.Time{}, err
	}
	return head, messages, stored.Now, nil
}

// decodeAll reads what is stored of a conversation, with its messages from one on; the
// zero head where there is none.
func decodeAll(stored Stored, from int64) (head Head, messages []Message, err error) {
	if len(stored.Head) == 0 {
		return Head{}, nil, nil
	}
	if head, err = decodeHead(stored.Head); err != nil {
		return Head{}, nil, err
	}
	messages = make([]Message, len(stored.Messages))
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
	for field, id := range map[string]string{"turn_id": a.Turn, "append_id": a.ID, "prompt_id": a.Prompt} {
		if err := unfit(field, id, false); err != nil {
			return err
		}
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

// name is what an append is known by; nothing where it has no id.
func (a *Append) name() (n Name) {
	if a.ID == "" {
		return n
	}
	sum := sha256.New()
	for _, part := range append([]string{a.ID, string(a.Provider), a.Turn}, a.Messages...) {
		_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // a hash never fails
		_, _ = sum.Write([]byte(part))                                          // as above
	}
	return Name(sum.Sum(nil))
}
