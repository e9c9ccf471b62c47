package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	methodUpdated     = "notifications/resources/updated"
	// maxSubscribed bounds what a server is to tell of.
	maxSubscribed = 1000
)

// listeners are who hears what a server says to everybody, whichever session it has.
type listeners struct {
	mu         sync.Mutex
	last       int
	hear       map[int]func(method string, params json.RawMessage)
	subscribed map[string]int // by URI, how often
}

// tell tells all of them.
func (l *listeners) tell(method string, params json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, hear := range l.hear {
		hear(method, params)
	}
}

// Listen implements backend.Relay.
func (b *Backend) Listen(hear func(method string, params json.RawMessage)) (stop func()) {
	l := &b.listening
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hear == nil {
		l.hear = make(map[int]func(string, json.RawMessage))
	}
	l.last++
	number := l.last
	l.hear[number] = hear
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.hear, number)
	}
}

// subscribes keeps what the server is to tell of, for its next session.
func (l *listeners) subscribes(params json.RawMessage) error {
	uri, err := uriOf(params)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribed[uri] == 0 && len(l.subscribed) == maxSubscribed {
		return errors.New("too many resources are subscribed to")
	}
	if l.subscribed == nil {
		l.subscribed = make(map[string]int)
	}
	l.subscribed[uri]++
	return nil
}

// unsubscribes reports whether nobody else wants to hear of a resource: the server has one
// subscription for all.
func (l *listeners) unsubscribes(params json.RawMessage) (last bool, err error) {
	uri, err := uriOf(params)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribed[uri] > 1 {
		l.subscribed[uri]--
		return false, nil
	}
	delete(l.subscribed, uri)
	return true, nil
}

func uriOf(params json.RawMessage) (string, error) {
	var of struct {
		URI string `json:"uri"`
	}
	err := json.Unmarshal(params, &of)
	return of.URI, err
}

// wanted are the resources that are subscribed to.
func (l *listeners) wanted() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]string, 0, len(l.subscribed))
	for uri := range l.subscribed {
		all = append(all, uri)
	}
	return all
}

// subscribeAgain has a new session told of what the one before was.
func (b *Backend) subscribeAgain(ctx context.Context, s *session) {
	for _, uri := range b.listening.wanted() {
		if err := s.client.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
			b.log.Warn("a resource that was subscribed to is not any more", "error", err)
		}
	}
}
