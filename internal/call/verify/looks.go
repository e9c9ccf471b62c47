package verify

import (
	"context"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/interpret"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// maxLooks bounds the looks under way, and those lately taken.
	maxLooks = 1024
	// pause is how long a look that settled nothing speaks for the next ones at
	// the same call.
	pause = time.Second
)

// looks lets only one look at a claim be under way: the others who want to know
// wait for it. The zero value is ready.
type looks struct {
	mu      sync.Mutex
	byClaim map[claim]*look
}

// claim is one claim of a call: what is seen of it holds for no other.
type claim struct {
	key   tool.CallID
	epoch int64
}

// look is one under way, or lately taken.
type look struct {
	done  chan struct{} // closed at its end, which publishes seen
	seen  sight
	until time.Time // under the lock: when it is forgotten; zero while under way
}

// share takes a look, or waits for the one that somebody else is taking.
func (t *looks) share(ctx context.Context, of claim, take func() sight) sight {
	for {
		l, leads := t.join(of)
		switch {
		case l == nil:
			return blind("too many verifications are under way")
		case leads:
			l.seen = take()
			t.end(of, l)
			return l.seen
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return blind("the time of the call is over: %w", context.Cause(ctx))
		}
		if !l.seen.cancelled {
			return l.seen
		}
	}
}

// join returns the look at a claim, and whether the caller takes it; nil when
// there are too many.
func (t *looks) join(of claim) (l *look, leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if l, ok := t.byClaim[of]; ok && (l.until.IsZero() || now.Before(l.until)) {
		return l, false
	}
	if len(t.byClaim) >= maxLooks && !t.forget(now) {
		return nil, false
	}
	if t.byClaim == nil {
		t.byClaim = make(map[claim]*look)
	}
	l = &look{done: make(chan struct{})}
	t.byClaim[of] = l
	return l, true
}

// forget drops what is over; false when that is nothing.
func (t *looks) forget(now time.Time) bool {
	before := len(t.byClaim)
	for of, l := range t.byClaim {
		if !l.until.IsZero() && !now.Before(l.until) {
			delete(t.byClaim, of)
		}
	}
	return len(t.byClaim) < before
}

// end publishes what was seen. What settles the call is of no further use, and
// its result may be large; the end of somebody's patience says nothing.
func (t *looks) end(of claim, l *look) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.seen.judged.Verdict == interpret.Happened || l.seen.cancelled {
		delete(t.byClaim, of)
	} else {
		l.until = time.Now().Add(pause)
	}
	close(l.done)
}
