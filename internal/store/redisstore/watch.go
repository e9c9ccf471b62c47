package redisstore

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/internal/tool"
)

// settledChannel is where the settling of a call that others wait for is
// published, as the key of its record.
func settledChannel(prefix string) string { return prefix + "settled" }

// watches tells those who wait here of calls that others have settled. All share one
// subscription, made for the first, which the client library makes anew when it is lost. What is
// published meanwhile is lost too: when it is back, everybody who waits is told to look.
type watches struct {
	wanted chan struct{} // gets a value when somebody waits

	mu    sync.Mutex
	hints map[chan struct{}]string // who waits, and the key of the record of what
}

// Watch implements dedupe.Watcher.
func (s *Store) Watch(key tool.CallID) (hints <-chan struct{}, stop func()) {
	w, hint := &s.watches, make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hints[hint] = RecordKey(s.options.KeyPrefix, key)
	nudge(w.wanted)
	return hint, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.hints, hint)
	}
}

// nudge gives a hint, unless there is one already that nobody has taken yet.
func nudge(hint chan struct{}) {
	select {
	case hint <- struct{}{}:
	default:
	}
}

// listen keeps one subscription, from when somebody waits until the store is closed.
func (s *Store) listen() {
	select {
	case <-s.watches.wanted:
	case <-s.ctx.Done():
		return
	}
	subscription := s.client.Subscribe(s.ctx, settledChannel(s.options.KeyPrefix))
	said := subscription.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(time.Second))
	for {
		select {
		case message, open := <-said:
			if !open { // so is the store
				return
			}
			s.watches.tell(message)
		case <-s.ctx.Done():
			_ = subscription.Close() // nobody listens any more
			return
		}
	}
}

// tell gives hints to those who wait for what a message is about; to all when the
// subscription has begun.
func (w *watches) tell(said any) {
	message, of := said.(*redis.Message)
	_, begun := said.(*redis.Subscription)
	w.mu.Lock()
	defer w.mu.Unlock()
	for hint, key := range w.hints {
		if begun || of && key == message.Payload {
			nudge(hint)
		}
	}
}
