package memory

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/sidecall/sidecall/conversation"
	"github.com/sidecall/sidecall/dedupe"
)

var _ conversation.Store = (*Store)(nil)

// WriteConversation implements conversation.Store.
func (s *Store) WriteConversation(ctx context.Context, w conversation.Write) (written bool, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	before := s.transcript(w.Key, now)
	if bytes.Equal(before.head, w.Head) {
		return true, nil
	}
	if !bytes.Equal(before.head, w.Was) {
		return false, nil
	}
	closed := make([]dedupe.Record, len(w.Closings))
	for i, c := range w.Closings {
		if closed[i], err = c.Close(); err != nil {
			return false, err
		}
		if current := s.find(c.Key, now); !bytes.Equal(current.stored(), c.Seen.Stored) {
			return false, nil
		}
	}
	held, known := s.transcripts[w.Key] // what has expired is held until it is swept
	after := transcript{head: w.Head, messages: before.messages, bytes: before.bytes, expires: now.Add(w.TTL)}
	after.bytes += int64(len(w.Head) - len(before.head))
	for _, m := range w.Messages {
		after.bytes += int64(len(m))
	}
	switch {
	case !known && len(s.transcripts) >= s.options.MaxRecords:
		return false, fmt.Errorf("%w: it holds %d conversations", dedupe.ErrFull, len(s.transcripts))
	case len(s.records)+len(w.Closings) > s.options.MaxRecords:
		return false, fmt.Errorf("%w: it holds %d calls", dedupe.ErrFull, len(s.records))
	case s.transcriptBytes-held.bytes+after.bytes > s.options.MaxConversationBytes:
		return false, fmt.Errorf("%w: its conversations have %d bytes, and at most %d are kept in memory",
			dedupe.ErrFull, s.transcriptBytes, s.options.MaxConversationBytes)
	case !known:
		s.transcriptQueue.push(after.expires, w.Key)
	}
	s.transcriptBytes += after.bytes - held.bytes
	// Behind all that was read of it: a page stays as it was.
	after.messages = append(after.messages, w.Messages...)
	s.transcripts[w.Key] = after
	for i, c := range w.Closings {
		s.put(c.Key, closed[i], c.Retention, now)
	}
	return true, nil
}

// transcript is a conversation as of now; the zero one when there is none.
func (s *Store) transcript(key conversation.Key, now time.Time) transcript {
	if t, ok := s.transcripts[key]; ok && now.Before(t.expires) {
		return t
	}
	return transcript{}
}

// ReadConversation implements conversation.Store.
func (s *Store) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return conversation.Stored{}, err
	}
	defer s.mu.Unlock()
	t := s.transcript(key, now)
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
	for key, t := range s.transcripts {
		if key.Tenant == tenant && (from == "" || key.ID > string(after)) && now.Before(t.expires) {
			ids = append(ids, key.ID)
		}
	}
	slices.Sort(ids)
	var page conversation.Page
	for _, id := range ids[:min(most, len(ids))] {
		page.Found = append(page.Found, conversation.Listed{ID: id, Head: conversation.Brief(s.transcripts[conversation.Key{Tenant: tenant, ID: id}].head)})
	}
	if len(ids) > most {
		page.Next = hex.EncodeToString([]byte(ids[most-1]))
	}
	return page, nil
}
