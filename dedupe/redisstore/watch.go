package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
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

// watches tells those who wait here of calls that others have settled. All of
// them share one subscription, made for the first and kept until close. What is
// published while it is down is lost: it is a hint, and when the subscription is
// back everybody who waits is told to look.
//
// The client library could keep the subscription by itself, but notices only
// connections that fail, not one on which nothing comes any more.
type watches struct {
	mu     sync.Mutex
	closed bool
	byKey  map[string]map[chan struct{}]struct{}
	cancel context.CancelFunc
	ended  chan struct{} // closed when listen has ended; nil before the first watch
}

// watch gives hints on the call whose record has a name, until stop is called.
func (w *watches) watch(client redis.UniversalClient, channel, name string) (hints <-chan struct{}, stop func()) {
	hint := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return hint, func() {}
	}
	if w.ended == nil {
		w.start(client, channel)
	}
	if w.byKey[name] == nil {
		w.byKey[name] = map[chan struct{}]struct{}{}
	}
	w.byKey[name][hint] = struct{}{}
	return hint, func() { w.forget(name, hint) }
}

func (w *watches) start(client redis.UniversalClient, channel string) {
	ctx, cancel := context.WithCancel(context.Background())
	w.byKey = map[string]map[chan struct{}]struct{}{}
	w.cancel, w.ended = cancel, make(chan struct{})
	go w.listen(ctx, client, channel) // ends in close
}

// listen keeps one subscription until ctx ends.
func (w *watches) listen(ctx context.Context, client redis.UniversalClient, channel string) {
	defer close(w.ended)
	for ctx.Err() == nil {
		w.hear(ctx, client.Subscribe(ctx, channel))
		select {
		case <-time.After(resubscribe):
		case <-ctx.Done():
		}
	}
}

// hear takes what one subscription has to say, until it is lost or ctx ends.
func (w *watches) hear(ctx context.Context, subscription *redis.PubSub) {
	// Its Receive heeds no context, but its being closed.
	unblock := context.AfterFunc(ctx, func() { _ = subscription.Close() }) // twice does no harm
	defer func() {
		unblock()
		_ = subscription.Close() // it is lost anyway
	}()
	for asked := false; ; {
		said, err := subscription.ReceiveTimeout(ctx, subscriptionCheck)
		switch said := said.(type) {
		case *redis.Message:
			w.tell(said.Payload)
		case *redis.Subscription:
			w.tellAll()
		}
		if err == nil {
			asked = false
			continue
		}
		silent, ok := errors.AsType[net.Error](err)
		if !ok || !silent.Timeout() || asked || subscription.Ping(ctx) != nil {
			return
		}
		asked = true
	}
}

func (w *watches) tell(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for hint := range w.byKey[name] {
		nudge(hint)
	}
}

func (w *watches) tellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, hints := range w.byKey {
		for hint := range hints {
			nudge(hint)
		}
	}
}

// nudge gives a hint, unless there is one already that nobody has taken yet.
func nudge(hint chan struct{}) {
	select {
	case hint <- struct{}{}:
	default:
	}
}

func (w *watches) forget(name string, hint chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byKey[name], hint)
	if len(w.byKey[name]) == 0 {
		delete(w.byKey, name)
	}
}

func (w *watches) close() {
	w.mu.Lock()
	w.closed = true
	cancel, ended := w.cancel, w.ended
	w.mu.Unlock()
	if ended != nil {
		cancel()
		<-ended
	}
}
