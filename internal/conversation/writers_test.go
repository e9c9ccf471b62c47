package conversation_test

import (
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/store/embedded"
)

// Two writers in one millisecond, which is as fine as the clocks of the stores are, with ids of
// their own and other messages of one length.
func TestTwoWritersOfOneMillisecond(t *testing.T) {
	t.Parallel()
	book := &conversation.Book{Store: embedded.InMemory(embedded.Options{}), Limits: conversation.Limits{TTL: time.Hour, Messages: 1000, Bytes: 1 << 20}}
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
