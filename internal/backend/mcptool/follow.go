package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
)

const (
	// subscribeTime is how long a server may take to begin a subscription, or to end one.
	subscribeTime = 10 * time.Second
	// maxSaid bounds what is kept of what a server has said to everybody.
	maxSaid = 1000
)

// listeners are who hears what a server says to everybody, whichever session it has. What it said
// last is kept once, and each reads it in its own time: that they are many, or slow, costs
// nothing.
type listeners struct {
	mu   sync.Mutex
	last int                  // the number of what was said last
	said []numbered           // in their order
	at   map[backend.Note]int // the numbers of them: of several alike the last is kept
	hear map[*listener]bool
	// subscribed are the resources that the server is to tell of, and for how many.
	subscribed map[string]int
}

type numbered struct {
	number int
	note   backend.Note
}

// listener has heard all up to a number.
type listener struct {
	there chan<- struct{}
	heard int
}

func newListeners() *listeners {
	return &listeners{at: make(map[backend.Note]int), hear: make(map[*listener]bool), subscribed: make(map[string]int)}
}

// tell tells all of them.
func (l *listeners) tell(method string, params json.RawMessage) {
	note := backend.Note{Method: method, Params: string(params)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if number, ok := l.at[note]; ok {
		i := l.after(number - 1)
		l.said = slices.Delete(l.said, i, i+1)
	} else if len(l.said) == maxSaid {
		delete(l.at, l.said[0].note)
		l.said = slices.Delete(l.said, 0, 1)
	}
	l.last++
	l.at[note] = l.last
	l.said = append(l.said, numbered{l.last, note})
	for one := range l.hear {
		notify(one.there)
	}
}

// after is where what was said after a number begins, for whoever holds the lock.
func (l *listeners) after(number int) int {
	i, _ := slices.BinarySearchFunc(l.said, number+1, func(n numbered, number int) int { return n.number - number })
	return i
}

// next is what a listener has not heard yet.
func (l *listeners) next(one *listener) (backend.Note, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.after(one.heard)
	if i == len(l.said) {
		return backend.Note{}, false
	}
	one.heard = l.said[i].number
	return l.said[i].note, true
}

// Listen implements backend.Relay.
func (b *Backend) Listen(there chan<- struct{}) (next func() (backend.Note, bool), stop func()) {
	l := b.listening
	l.mu.Lock()
	defer l.mu.Unlock()
	one := &listener{there: there, heard: l.last}
	l.hear[one] = true
	return func() (backend.Note, bool) { return l.next(one) }, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.hear, one)
	}
}

// count counts so many more who want to hear of a resource, and returns how many there are.
func (l *listeners) count(uri string, more int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscribed[uri] += more
	now := l.subscribed[uri]
	if now == 0 {
		delete(l.subscribed, uri)
	}
	return now
}

// Subscribe implements backend.Relay. The server has one subscription for all.
func (b *Backend) Subscribe(ctx context.Context, uri string) (end func(context.Context) error, err error) {
	b.listening.count(uri, 1)
	if err := told(ctx, b.settle(uri)); err != nil {
		b.listening.count(uri, -1)
		if _, refused := errors.AsType[*backend.Refusal](err); !refused {
			b.settle(uri) // it may be there
		}
		return nil, err
	}
	return func(ctx context.Context) error {
		if b.listening.count(uri, -1) > 0 {
			return nil
		}
		return told(ctx, b.settle(uri))
	}, nil
}

// told waits for a server to be told of a subscription, as long as ctx lasts.
func told(ctx context.Context, settled <-chan error) error {
	select {
	case err := <-settled:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settle has the server tell of a resource, or not any more, as it is wanted, and again where that changes
// meanwhile. Nobody who leaves cuts it off: which of them it is would not be known.
func (b *Backend) settle(uri string) (settled <-chan error) {
	done := make(chan error, 1)
	if !b.running.Enter() {
		done <- errClosed
		return done
	}
	go func() {
		defer b.running.Done()
		ctx, cancel := context.WithTimeout(b.closing, subscribeTime)
		defer cancel()
		for {
			wanted := b.listening.count(uri, 0) > 0
			_, err := b.hand(ctx, nil, func(ctx context.Context, s *session) error {
				if wanted {
					return s.client.Subscribe(ctx, &mcp.SubscribeParams{URI: uri})
				}
				return s.client.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri})
			})
			if wanted == (b.listening.count(uri, 0) > 0) || ctx.Err() != nil {
				done <- err
				return
			}
		}
	}()
	return done
}

// wanted are the resources that are subscribed to.
func (l *listeners) wanted() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.subscribed))
}

// subscribeAgain has a new session told of what the one before was.
func (b *Backend) subscribeAgain() {
	for _, uri := range b.listening.wanted() {
		if err := <-b.settle(uri); err != nil {
			b.log.Warn("a resource that was subscribed to is not any more", "error", err)
		}
	}
}
