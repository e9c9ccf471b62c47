package conversation_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/store/memory"
)

// millis is a store whose clock is as fine as that of Redis (transcript.lua): milliseconds.
type millis struct {
	conversation.Store
}

func (s millis) ReadConversation(ctx context.Context, key conversation.Key, from int64, most int) (conversation.Stored, error) {
	stored, err := s.Store.ReadConversation(ctx, key, from, most)
	stored.Now = stored.Now.Truncate(time.Millisecond)
	return stored, err
}

// Two writers in one millisecond, with ids of their own and other messages of one length.
func TestTwoWritersOfOneMillisecond(t *testing.T) {
	t.Parallel()
	book := &conversation.Book{Store: millis{memory.New(memory.Options{})}, Limits: conversation.Limits{TTL: time.Hour, Messages: 1000, Bytes: 1 << 20}}
	both, lost := 0, 0
	for range 200 {
		key := conversation.Key{ID: time.Now().String()}
		texts := []string{`{"role":"user","content":"pay A"}`, `{"role":"user","content":"pay B"}`}
		var errs [2]error
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				_, errs[i] = book.Append(t.Context(), conversation.Append{Key: key, Provider: provider.Anthropic, Messages: texts[i : i+1], ID: texts[i]})
			})
		}
		all.Wait()
		if errs[0] == nil && errs[1] == nil {
			both++
			_, messages, err := book.Load(t.Context(), key, 0, 1<<20)
			if err == nil && len(messages) == 1 {
				lost++
			}
		}
	}
	if both > 0 {
		t.Errorf("of 200 pairs both were told OK %d times, and one message was stored %d times", both, lost)
	}
}
