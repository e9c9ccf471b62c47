//go:build e2e

package redisstore

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// Two writers, as of two sidecars, with other messages of one length and ids of their own.
func TestTwoWritersAtTheSameTime(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	limits := conversation.Limits{TTL: time.Hour, Messages: 10, Bytes: 1 << 20}
	var books [2]*conversation.Book
	for i := range books {
		books[i] = &conversation.Book{Store: open(t, Options{Addrs: []string{srv.Addr}}), Limits: limits}
	}
	both, lost := 0, 0
	for n := range 1000 {
		key := conversation.Key{ID: fmt.Sprint(n)}
		texts := []string{`{"role":"user","content":"pay A"}`, `{"role":"user","content":"pay B"}`}
		var errs [2]error
		var all sync.WaitGroup
		for i := range books {
			all.Go(func() {
				_, errs[i] = books[i].Append(t.Context(), conversation.Append{Key: key, Provider: provider.Anthropic, Messages: texts[i : i+1], ID: texts[i]})
			})
		}
		all.Wait()
		if errs[0] == nil && errs[1] == nil {
			both++
			if _, messages, err := books[0].Load(t.Context(), key, 0, 1<<20); err == nil && len(messages) == 1 {
				lost++
			}
		}
	}
	if both > 0 {
		t.Errorf("of 1000 pairs both were told OK %d times, and one message was stored %d times", both, lost)
	}
}
