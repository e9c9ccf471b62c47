package wrap

import (
	"context"
	"sync"
)

// turns are the servers that there are: the one that is spoken to, one that is greeted yet, and those that
// have ended and still have something to answer.
type turns struct {
	mu     sync.Mutex
	now    *server       // nil while there is none
	turned chan struct{} // closed when now is another
	all    map[*server]bool
}

// begun says that something may come of a server.
func (t *turns) begun(s *server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all[s] = true
}

// turn says which server is spoken to.
func (t *turns) turn(s *server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = s
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

// holder is the server that has what a message of the client is about, or else the one that is spoken to.
func (t *turns) holder(ctx context.Context, has func(*server) bool) *server {
	t.mu.Lock()
	for s := range t.all {
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
	delete(t.all, s)
}
