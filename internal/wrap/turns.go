package wrap

import (
	"context"
	"sync"
)

// turns are the servers that there are: the one that is spoken to, and those before it that still have
// something to answer.
type turns struct {
	mu       sync.Mutex
	now      *server       // nil while there is none
	turned   chan struct{} // closed when now is another
	draining map[*server]bool
}

// turn says which server there is, and which is drained, if one is.
func (t *turns) turn(s, drained *server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = s
	if drained != nil {
		t.draining[drained] = true
	}
	close(t.turned)
	t.turned = make(chan struct{})
}

// server is the one that there is, waited for a little; nil when none comes in time.
func (t *turns) server(ctx context.Context) *server {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		t.mu.Lock()
		now, turned := t.now, t.turned
		t.mu.Unlock()
		if now != nil && !now.ended() {
			return now
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return nil
		}
	}
}

// holder is the server that has what a message of the client is about: one that is being drained, or
// else the one that there is.
func (t *turns) holder(ctx context.Context, has func(*server) bool) *server {
	t.mu.Lock()
	for s := range t.draining {
		if has(s) {
			t.mu.Unlock()
			return s
		}
	}
	t.mu.Unlock()
	return t.server(ctx)
}

// drained says that nothing more comes of a server.
func (t *turns) drained(s *server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.draining, s)
}
