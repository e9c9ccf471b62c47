package conversation_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/conversation"
)

// slow takes a moment for each page.
type slow struct{ conversation.Store }

func (s slow) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	if most > 0 {
		select {
		case <-ctx.Done():
			return conversation.Stored{}, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return s.Store.ReadConversation(ctx, key, from, most)
}

// Who leaves in the middle leaves what was read: one whose deadline is shorter than the
// whole reading has its answer after some tries, and one that asks and hangs up again and
// again has nothing read twice.
func TestAnAskerThatLeavesHasNothingReadAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := book(t)
		b.Limits.Bytes, b.Limits.Messages = 64<<20, 1000
		store := &counted{Store: b.Store}
		b.Store = store
		for n := range 20 {
			appended(t, b, follows(int64(n), `{"role":"user","content":"`+strings.Repeat("x", 1<<20)+`"}`))
		}
		b.Store = slow{store}
		head, _, err := b.Load(t.Context(), key, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		store.messages.Store(0)
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 70*time.Millisecond)
			_, err = b.CompactBefore(ctx, key, &head, conversation.Compaction{AfterTurns: 1})
			cancel()
			if err == nil {
				break
			}
		}
		if n := store.messages.Load(); err != nil || n > 20 {
			t.Errorf("%d messages were read of 20: %v", n, err)
		}
	})
}
