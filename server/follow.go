package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/forward"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// lookAgain is how often it is looked whether the tools are others.
	lookAgain = time.Second
	// maxURI bounds what is subscribed to, in bytes: of a longer one no server is heard.
	maxURI = 4 << 10
	// leaveTime bounds how long servers have to hear that a follower has left.
	leaveTime = 2 * time.Second
)

// listsChanged are the notifications of lists that are others: of the tools, and where the servers are others, of all.
var listsChanged = []string{"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"}

// followers are those of one listener, by ids that nobody can guess.
type followers struct {
	// places has one for each subscription of theirs.
	places chan struct{}

	mu  sync.Mutex
	all map[string]*follower
}

// follower is who follows. What it has subscribed to lasts no longer than that, and nobody else
// ends it.
type follower struct {
	*followers

	id string
	// servers are those that it hears, and has subscribed at; moving is held to change them, and read to subscribe.
	servers forward.Servers
	moving  sync.RWMutex
	// ends are those of its subscriptions, by URI: as many as there are. mu guards them; nil when it
	// has left.
	ends map[string][]func(context.Context) error
}

func newFollowers(places chan struct{}) *followers {
	return &followers{places: places, all: make(map[string]*follower)}
}

func (f *followers) enter() *follower {
	one := &follower{followers: f, id: rand.Text(), ends: make(map[string][]func(context.Context) error)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[one.id] = one
	return one
}

// of is the follower of an id; nil when there is none.
func (f *followers) of(id string) *follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[id]
}

// hear has it hear servers from now on, and reports that they are others than before: a config has put others in
// their place. What it has subscribed to it is subscribed to there.
func (f *follower) hear(ctx context.Context, servers forward.Servers) (others bool) {
	f.moving.Lock()
	defer f.moving.Unlock()
	others = !servers.Same(f.servers)
	f.servers = servers
	if !others {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	for uri, of := range f.ends { // as nobody else subscribes now
		for i, end := range of {
			again, err := servers.Subscribe(ctx, uri)
			if err != nil { // none of them has it, or not now: who follows hears nothing of it
				again = func(context.Context) error { return nil }
			}
			_ = end(ctx) // its server may be gone
			of[i] = again
		}
	}
	return true
}

// leave ends all that a follower has subscribed to.
func (f *follower) leave(ctx context.Context) {
	f.mu.Lock()
	delete(f.all, f.id)
	ends := f.ends
	f.ends = nil
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	for _, of := range ends {
		for _, end := range of {
			_ = end(ctx) // a server that does not hear of it tells nobody
			<-f.places
		}
	}
}

// subscribe has servers tell of a resource.
func (f *follower) subscribe(ctx context.Context, uri string) error {
	select {
	case f.places <- struct{}{}:
	default:
		return status.Errorf(codes.ResourceExhausted, "OVERLOADED: %d resources are subscribed to here, and no more may be; nothing was started, end a subscription first", cap(f.places))
	}
	f.moving.RLock()
	defer f.moving.RUnlock()
	end, err := f.servers.Subscribe(ctx, uri)
	if err != nil {
		<-f.places
		return err
	}
	f.mu.Lock()
	here := f.ends != nil
	if here {
		f.ends[uri] = append(f.ends[uri], end)
	}
	f.mu.Unlock()
	if here {
		return nil
	}
	<-f.places
	_ = end(ctx) // it has left
	return errNotFollowed
}

// unsubscribe ends one subscription of a resource, of those that are its own.
func (f *follower) unsubscribe(ctx context.Context, uri string) error {
	f.moving.RLock()
	defer f.moving.RUnlock()
	f.mu.Lock()
	ends := f.ends[uri]
	switch len(ends) {
	case 0:
		f.mu.Unlock()
		return nil
	case 1:
		delete(f.ends, uri)
	default:
		f.ends[uri] = ends[1:]
	}
	f.mu.Unlock()
	<-f.places
	return ends[0](ctx)
}

var errNotFollowed = status.Error(codes.FailedPrecondition, "follow_id: no stream of Follow with that is open; nothing was started, open one, and subscribe with the follow_id of its first message")

// subscription begins or ends one.
func (m *MCP) subscription(ctx context.Context, req *sidecallv1.ForwardRequest) (json.RawMessage, error) {
	f := m.followers.of(req.GetFollowId())
	if f == nil {
		return nil, errNotFollowed
	}
	var of struct {
		URI string `json:"uri"`
	}
	if err := json.Unmarshal([]byte(req.GetParamsJson()), &of); err != nil || of.URI == "" || len(of.URI) > maxURI {
		return nil, &backend.Refusal{Code: badParams, Message: "uri: the URI of a resource is expected, of 4096 bytes at most"}
	}
	if req.GetMethod() == methodUnsubscribe {
		return json.RawMessage(`{}`), f.unsubscribe(ctx, of.URI)
	}
	return json.RawMessage(`{}`), f.subscribe(ctx, of.URI)
}

// By what a subscription begins and ends, and the error of JSON-RPC for parameters that cannot be.
const (
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	badParams         = -32602
)

// follow tells who follows a profile what changes, until it leaves.
func (m *MCP) follow(ctx context.Context, req *sidecallv1.FollowRequest, stream grpc.ServerStream) error {
	select {
	case m.following <- struct{}{}:
		defer func() { <-m.following }()
	default:
		return status.Error(codes.ResourceExhausted, "too many follow already")
	}
	f := m.followers.enter()
	defer f.leave(ctx)
	there := make(chan struct{}, 1)
	next, stop := forward.Servers(nil).Listen(there)
	defer func() { stop() }()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	var seen *catalog.Snapshot
	for {
		for note, more := next(); more; note, more = next() {
			if err := stream.SendMsg(&sidecallv1.FollowResponse{Method: note.Method, ParamsJson: carried(note.Params)}); err != nil {
				return err
			}
		}
		if now := m.Executor.Catalog.Snapshot(); now != seen {
			profile, err := profileOf(now, req.GetProfile(), m.Offered)
			if err != nil {
				return err
			}
			stop()
			servers, changed := forward.Of(now.Routes(profile)), listsChanged[:1]
			next, stop = servers.Listen(there)
			if f.hear(ctx, servers) && seen != nil {
				changed = listsChanged
			}
			seen = now
			for _, method := range changed {
				if err := stream.SendMsg(&sidecallv1.FollowResponse{Method: method, FollowId: f.id}); err != nil {
					return err
				}
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		case <-there:
		}
	}
}
