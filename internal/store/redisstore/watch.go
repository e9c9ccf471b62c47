package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// subscriptionCheck is how long a subscription may be silent before it is
	// asked whether it is alive, and then until it has answered.
	subscriptionCheck = time.Second
	// resubscribe is the pause before a lost subscription is made again.
	resubscribe = 100 * time.Millisecond
)

// settledChannel is where the settling of a call that others wait for is
// published, as the key of its record.
func settledChannel(prefix string) string { return prefix + "settled" }

// watches tells those who wait here of calls that others have settled. All share one
// subscription, made for the first. What is published while it is down is lost: when it is
// back, everybody who waits is told to look. The client library's own check only sends a PING:
// it notices connections that fail, and not one on which nothing comes any more.
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
	dedupe.Nudge(w.wanted)
	return hint, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.hints, hint)
	}
}

// listen keeps one subscription until the store is closed.
func (s *Store) listen() {
	for next := s.watches.wanted; ; {
		select {
		case <-next:
		case <-s.ctx.Done():
			return
		}
		s.watches.hear(s.ctx, s.client.Subscribe(s.ctx, settledChannel(s.options.KeyPrefix)))
		next = make(chan struct{}, 1)
		time.AfterFunc(resubscribe, func() { dedupe.Nudge(next) })
	}
}

// hear takes what one subscription has to say, until it is lost or ctx ends.
func (w *watches) hear(ctx context.Context, subscription *redis.PubSub) {
	shut := func() { _ = subscription.Close() } // it is lost anyway; twice does no harm
	defer shut()
	defer context.AfterFunc(ctx, shut)() // its Receive heeds no context, but its being closed
	for asked := false; ; {
		said, err := subscription.ReceiveTimeout(ctx, subscriptionCheck)
		if err == nil {
			asked = false
			w.tell(said)
			continue
		}
		silent, ok := errors.AsType[net.Error](err)
		if !ok || !silent.Timeout() || asked || subscription.Ping(ctx) != nil {
			return
		}
		asked = true
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
			dedupe.Nudge(hint)
		}
	}
}
