package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// subscriptions are what sessions want to hear of.
type subscriptions struct {
	servers

	leaving *sync.WaitGroup // of what ends them with a session

	mu sync.Mutex
	// of is what each session has subscribed to, by URI: under which followed.
	of map[*sdk.ServerSession]map[string]string
	// followed is the id of the stream by which the sidecar is followed, or was last; begun is closed
	// when there is one.
	followed string
	begun    chan struct{}
}

func (s *subscriptions) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of) == 0
}

// followWait bounds how long a subscription waits for the sidecar to be followed.
const followWait = 10 * time.Second

// subscribe has a server tell of a resource, as long as the session lasts; unsubscribe not any more.
// A session has one subscription of a resource, and ends no other's.
func (s *subscriptions) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	select {
	case <-s.begun:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(followWait):
		return errNotFollowed
	}
	s.mu.Lock()
	followed, had := s.followed, s.of[req.Session][req.Params.URI] != ""
	s.mu.Unlock()
	if had {
		return nil
	}
	// It lasts as long as the session, and who leaves meanwhile would not know what there is to end.
	ctx = context.WithoutCancel(ctx)
	if err := s.tell(ctx, subscribes, req.Params.URI, followed); err != nil {
		return err
	}
	had, err := s.keep(ctx, req.Session, req.Params.URI, followed)
	if had {
		return s.tell(ctx, unsubscribes, req.Params.URI, followed)
	}
	return err
}

// errNotFollowed is of a subscription that nobody would hear of.
var errNotFollowed = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the sidecar cannot tell of changes for now; subscribe again in a few seconds"}

const subscribes, unsubscribes = "resources/subscribe", "resources/unsubscribe"

// tell begins a subscription of the stream by which the sidecar is followed, or ends one.
func (s *subscriptions) tell(ctx context.Context, method, uri, followed string) error {
	_, err := s.ask(ctx, method, &sdk.SubscribeParams{URI: uri}, followed) // the parameters of both
	return err
}

// again begins what sessions have subscribed to anew, of another stream than the one
// before, with which it has ended.
func (s *subscriptions) again(ctx context.Context, followed string) {
	type subscription struct {
		session *sdk.ServerSession
		uri     string
	}
	var lost []subscription
	s.mu.Lock()
	if s.followed == "" {
		close(s.begun)
	}
	s.followed = followed
	for session, of := range s.of {
		for uri, under := range of {
			if under != followed {
				lost = append(lost, subscription{session, uri})
			}
		}
	}
	s.mu.Unlock()
	for _, one := range lost {
		if err := s.tell(ctx, subscribes, one.uri, followed); err != nil {
			s.options.heard(err)
			continue
		}
		s.mu.Lock()
		_, wanted := s.of[one.session][one.uri]
		if wanted {
			s.of[one.session][one.uri] = followed
		}
		s.mu.Unlock()
		if !wanted {
			s.options.heard(s.tell(ctx, unsubscribes, one.uri, followed))
		}
	}
}

// keep notes what a session has subscribed to; it reports that it had already. Where another stream
// has begun since, it has ended with the one before.
func (s *subscriptions) keep(ctx context.Context, session *sdk.ServerSession, uri, followed string) (had bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followed != followed {
		return false, errNotFollowed
	}
	of, known := s.of[session]
	if !known {
		of = make(map[string]string)
		s.of[session] = of
		s.leaving.Go(func() { s.leave(ctx, session) })
	}
	if had = of[uri] != ""; !had {
		of[uri] = followed
	}
	return had, nil
}

func (s *subscriptions) unsubscribe(ctx context.Context, req *sdk.UnsubscribeRequest) error {
	s.mu.Lock()
	followed := s.of[req.Session][req.Params.URI]
	delete(s.of[req.Session], req.Params.URI)
	s.mu.Unlock()
	if followed == "" {
		return nil
	}
	return s.tell(context.WithoutCancel(ctx), unsubscribes, req.Params.URI, followed) // its client may have gone
}

// leave ends what a session has subscribed to when it has ended.
func (s *subscriptions) leave(ctx context.Context, session *sdk.ServerSession) {
	_ = session.Wait() // however it ended
	s.mu.Lock()
	of := s.of[session]
	delete(s.of, session)
	s.mu.Unlock()
	for uri, followed := range of {
		s.options.heard(s.tell(ctx, unsubscribes, uri, followed))
	}
}
