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
// The client library could keep the subscription by itself, but its check only sends a
// PING: it notices connections that fail, and not one on which nothing comes any more.
type watches struct {
	client  redis.UniversalClient
	channel string
	ctx     context.Context // until close
	cancel  context.CancelFunc
	ended   sync.WaitGroup

	mu    sync.Mutex
	begun bool
	// byKey has who waits for the call of a record, by its key.
	byKey map[string]map[chan struct{}]struct{}
}

func newWatches(client redis.UniversalClient, channel string) *watches {
	w := &watches{client: client, channel: channel, byKey: map[string]map[chan struct{}]struct{}{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

func (w *watches) close() {
	w.mu.Lock()
	w.cancel()
	w.mu.Unlock()
	w.ended.Wait()
}

// watch gives hints on the call whose record has a key, until stop is called.
func (w *watches) watch(key string) (hints <-chan struct{}, stop func()) {
	hint := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun && w.ctx.Err() == nil {
		w.begun = true
		w.ended.Go(w.listen)
	}
	if w.byKey[key] == nil {
		w.byKey[key] = map[chan struct{}]struct{}{}
	}
	w.byKey[key][hint] = struct{}{}
	return hint, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.byKey[key], hint); len(w.byKey[key]) == 0 {
			delete(w.byKey, key)
		}
	}
}

// listen keeps one subscription until close.
func (w *watches) listen() {
	for w.ctx.Err() == nil {
		w.hear(w.client.Subscribe(w.ctx, w.channel))
		select {
		case <-time.After(resubscribe):
		case <-w.ctx.Done():
		}
	}
}

// hear takes what one subscription has to say, until it is lost.
func (w *watches) hear(subscription *redis.PubSub) {
	// Its Receive heeds no context, but its being closed.
	unblock := context.AfterFunc(w.ctx, func() { _ = subscription.Close() }) // twice does no harm
	defer func() {
		unblock()
		_ = subscription.Close() // it is lost anyway
	}()
	for asked := false; ; {
		said, err := subscription.ReceiveTimeout(w.ctx, subscriptionCheck)
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
		if !ok || !silent.Timeout() || asked || subscription.Ping(w.ctx) != nil {
			return
		}
		asked = true
	}
}

func (w *watches) tellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, hints := range w.byKey {
		nudge(hints)
	}
}

func (w *watches) tell(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	nudge(w.byKey[key])
}

// nudge gives a hint, unless there is one already that nobody has taken yet.
func nudge(hints map[chan struct{}]struct{}) {
	for hint := range hints {
		select {
		case hint <- struct{}{}:
		default:
		}
	}
}
