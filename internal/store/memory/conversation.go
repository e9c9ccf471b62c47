package memory

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
)

var _ conversation.Store = (*Store)(nil)

// WriteConversation implements conversation.Store.
func (s *Store) WriteConversation(ctx context.Context, w conversation.Write) (bool, error) {
	return with(ctx, s, func(now time.Time) (bool, error) { return s.write(w, now) })
}

func (s *Store) write(w conversation.Write, now time.Time) (written bool, err error) {
	t, _ := s.transcripts.get(w.Key, now)
	if bytes.Equal(t.head, w.Head) || !bytes.Equal(t.head, w.Was) {
		return bytes.Equal(t.head, w.Head), nil
	}
	for _, m := range w.Messages {
		t.bytes += int64(len(m))
	}
	size := t.bytes + int64(len(w.Head))
	if !s.transcripts.fits(w.Key, size, s.options.MaxRecords, s.options.MaxConversationBytes) {
		return false, fmt.Errorf("%w: it holds %d conversations of %d bytes, and may hold %d of %d",
			dedupe.ErrFull, len(s.transcripts.entries), s.transcripts.bytes, s.options.MaxRecords, s.options.MaxConversationBytes)
	}
	if len(s.records.entries)+len(w.Closings) > s.options.MaxRecords {
		return false, fmt.Errorf("%w: it holds %d calls", dedupe.ErrFull, len(s.records.entries))
	}
	s.at.now = now
	if shut, err := dedupe.Shut(&s.at, w.Closings); !shut || err != nil {
		return false, err
	}
	// Behind all that was read of it: a page stays as it was.
	t.head, t.messages = w.Head, append(t.messages, w.Messages...)
	s.transcripts.put(w.Key, t, size, now.Add(w.TTL))
	return true, nil
}

// ReadConversation implements conversation.Store.
func (s *Store) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	return with(ctx, s, func(now time.Time) (conversation.Stored, error) {
		t, _ := s.transcripts.get(key, now)
		end, size := from, 0
		for ; most > 0 && end < int64(len(t.messages)); end++ {
			if size += len(t.messages[end]); size > most && end > from {
				break
			}
		}
		read := conversation.Stored{Head: t.head, Now: now}
		if end > from {
			read.Messages = t.messages[from:end:end]
		}
		return read, nil
	})
}

// ListConversations implements conversation.Store, in the order of the ids.
func (s *Store) ListConversations(ctx context.Context, tenant, from string, most int) (conversation.Page, error) {
	after, err := hex.DecodeString(from)
	if err != nil {
		return conversation.Page{}, fmt.Errorf("%w: %q is no place where a listing goes on", dedupe.ErrInvalid, from)
	}
	return with(ctx, s, func(now time.Time) (page conversation.Page, err error) {
		for key := range s.transcripts.entries {
			if t, there := s.transcripts.get(key, now); there && key.Tenant == tenant && (from == "" || key.ID > string(after)) {
				page.Found = append(page.Found, conversation.Listed{ID: key.ID, Head: t.head})
			}
		}
		slices.SortFunc(page.Found, func(a, b conversation.Listed) int { return strings.Compare(a.ID, b.ID) })
		if len(page.Found) > most {
			page.Found = page.Found[:most]
			page.Next = hex.EncodeToString([]byte(page.Found[most-1].ID))
		}
		for i := range page.Found {
			page.Found[i].Head = conversation.Brief(page.Found[i].Head)
		}
		return page, nil
	})
}
