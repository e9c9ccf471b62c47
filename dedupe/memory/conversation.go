package memory

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/sidecall/sidecall/conversation"
	"github.com/sidecall/sidecall/dedupe"
)

var _ conversation.Store = (*Store)(nil)

// transcript is a conversation that is kept.
type transcript struct {
	head     []byte
	messages [][]byte
	bytes    int64 // of the messages
}

// WriteConversation implements conversation.Store.
func (s *Store) WriteConversation(ctx context.Context, w conversation.Write) (written bool, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	t, _ := s.transcripts.get(w.Key, now)
	if bytes.Equal(t.head, w.Head) || !bytes.Equal(t.head, w.Was) {
		return bytes.Equal(t.head, w.Head), nil
	}
	for _, m := range w.Messages {
		t.bytes += int64(len(m))
	}
	size := t.bytes + int64(len(w.Head))
	held, _ := s.transcripts.held(w.Key) // what has expired is held until it is swept
	switch {
	case s.transcripts.full(w.Key, s.options.MaxRecords):
		return false, fmt.Errorf("%w: it holds %d conversations", dedupe.ErrFull, len(s.transcripts.entries))
	case len(s.records.entries)+len(w.Closings) > s.options.MaxRecords:
		return false, fmt.Errorf("%w: it holds %d calls", dedupe.ErrFull, len(s.records.entries))
	case s.transcripts.bytes-held+size > s.options.MaxConversationBytes:
		return false, fmt.Errorf("%w: its conversations have %d bytes, and at most %d are kept in memory",
			dedupe.ErrFull, s.transcripts.bytes, s.options.MaxConversationBytes)
	}
	if shut, err := dedupe.Shut(&rows{s, now}, w.Closings); !shut || err != nil {
		return false, err
	}
	// Behind all that was read of it: a page stays as it was.
	t.head, t.messages = w.Head, append(t.messages, w.Messages...)
	s.transcripts.put(w.Key, t, size, now.Add(w.TTL))
	return true, nil
}

// ReadConversation implements conversation.Store.
func (s *Store) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return conversation.Stored{}, err
	}
	defer s.mu.Unlock()
	t, _ := s.transcripts.get(key, now)
	if most == 0 || from >= int64(len(t.messages)) {
		return conversation.Stored{Head: t.head, Now: now}, nil
	}
	end, size := from, 0
	for ; end < int64(len(t.messages)); end++ {
		if size += len(t.messages[end]); size > most && end > from {
			break
		}
	}
	return conversation.Stored{Head: t.head, Messages: t.messages[from:end:end], Now: now}, nil
}

// ListConversations implements conversation.Store, in the order of the ids.
func (s *Store) ListConversations(ctx context.Context, tenant, from string, most int) (conversation.Page, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return conversation.Page{}, err
	}
	defer s.mu.Unlock()
	after, err := hex.DecodeString(from)
	if err != nil {
		return conversation.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	var ids []string
	for key := range s.transcripts.entries {
		if _, there := s.transcripts.get(key, now); there && key.Tenant == tenant && (from == "" || key.ID > string(after)) {
			ids = append(ids, key.ID)
		}
	}
	slices.Sort(ids)
	var page conversation.Page
	for _, id := range ids[:min(most, len(ids))] {
		page.Found = append(page.Found, conversation.Listed{ID: id, Head: conversation.Brief(s.transcripts.entries[conversation.Key{Tenant: tenant, ID: id}].value.head)})
	}
	if len(ids) > most {
		page.Next = hex.EncodeToString([]byte(ids[most-1]))
	}
	return page, nil
}
