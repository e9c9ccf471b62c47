package mcptool

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
)

const (
	methodUpdated = "notifications/resources/updated"
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

// Subscribe implements backend.Relay. The server has one subscription for all, so it is counted
// before it is there: nobody ends it meanwhile.
func (b *Backend) Subscribe(ctx context.Context, uri string) (end func(context.Context) error, err error) {
	subscribe := func(ctx context.Context, s *session) error {
		return s.client.Subscribe(ctx, &mcp.SubscribeParams{URI: uri})
	}
	b.listening.count(uri, 1)
	if _, err := b.hand(ctx, nil, subscribe); err != nil {
		b.listening.count(uri, -1)
		return nil, err
	}
	return func(ctx context.Context) error {
		if b.listening.count(uri, -1) > 0 {
			return nil
		}
		_, err := b.hand(ctx, nil, func(ctx context.Context, s *session) error {
			return s.client.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: uri})
		})
		if b.listening.count(uri, 0) > 0 { // of somebody who came meanwhile, and may have been heard before
			_, err = b.hand(ctx, nil, subscribe)
		}
		return err
	}, nil
}

// wanted are the resources that are subscribed to.
func (l *listeners) wanted() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.subscribed))
}

// subscribeAgain has a new session told of what the one before was.
func (b *Backend) subscribeAgain(ctx context.Context, s *session) {
	for _, uri := range b.listening.wanted() {
		if err := s.client.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
			b.log.Warn("a resource that was subscribed to is not any more", "error", err)
		}
	}
}
