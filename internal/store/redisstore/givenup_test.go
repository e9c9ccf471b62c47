//go:build e2e

package redisstore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// Who has given up waiting looks at nothing that is still being decided; the race
// detector watches.
func TestStepsThatAreGivenUp(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	p := faultproxy.Start(t, srv.Addr)
	s := open(t, Options{Addrs: []string{p.Addr()}})
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.Delay(0, 20*time.Millisecond)
	var crowd sync.WaitGroup
	for i := range 40 {
		crowd.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5*i)*time.Millisecond)
			defer cancel()
			w := conversation.Write{Key: conversation.Key{Tenant: "acme", ID: "c"}, Head: fmt.Append(nil, i), Messages: [][]byte{[]byte("message")}, TTL: time.Hour}
			if written, err := s.WriteConversation(ctx, w); written && err != nil {
				t.Errorf("written, and %v", err)
			}
			req := request(fmt.Sprint(i), tool.NonIdempotent)
			req.Key.Conversation = "c"
			if a, err := s.Admit(ctx, req); err != nil && a.Verdict != 0 {
				t.Errorf("%v, and %v", a.Verdict, err)
			}
			if _, after, err := s.Bid(ctx, dedupe.Bid{Instance: "c", Token: fmt.Sprint(i), TTL: time.Hour, Keep: time.Hour}); err != nil && after != (dedupe.Tenure{}) {
				t.Errorf("%+v, and %v", after, err)
			}
		})
	}
	crowd.Wait()
}
