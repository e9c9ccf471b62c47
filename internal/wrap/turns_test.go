package wrap

import (
	"context"
	"io"
	"sync"
	"testing"

	"github.com/sidecall/sidecall/internal/backend/mcptool"
)

// ending is a link that nothing is sent on any more, and that has not said so yet.
type ending struct {
	Link

	since, until chan struct{}
}

func (e ending) Ending() <-chan struct{} { return e.since }
func (e ending) Wait() error             { <-e.until; return nil }
func (ending) Drain()                    {}
func (ending) End()                      {}

// A server is asked about what it has from its beginning until nothing more comes of it, whether it is
// the one that is spoken to, or is greeted yet, or not.
func TestAServerHasWhatItHasUntilItIsDrained(t *testing.T) {
	t.Parallel()
	e := ending{since: make(chan struct{}), until: make(chan struct{})}
	var heard mcptool.Listener
	r := New(Options{Out: io.Discard, Open: func(l mcptool.Listener) (Link, error) { heard = l; return e, nil }})
	close(e.since)
	var drains sync.WaitGroup
	ran, begun := make(chan struct{}), r.turned
	go func() {
		defer close(ran)
		_, _ = r.run(t.Context(), &drains)
	}()
	<-begun
	s := heard.(*server)
	s.mu.Lock()
	s.asks["1"] = "1"
	s.mu.Unlock()
	asked := func(s *server) bool { return s.asked("1") }
	if r.holder(t.Context(), asked) != s {
		t.Error("a server that has ended just now is not asked about what it has")
	}
	close(e.until)
	<-ran
	drains.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r.holder(ctx, asked) != nil {
		t.Error("a server of which nothing more comes is asked")
	}
}
