package server

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/forward"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// maxNews bounds what waits for one who follows servers.
	maxNews = 1000
	// lookAgain is how often it is looked whether the tools are others.
	lookAgain = time.Second
	// toolsChanged is the notification that they are.
	toolsChanged = "notifications/tools/list_changed"
)

// news are what changed and was not told yet: of several alike, one.
type news struct {
	mu    sync.Mutex
	waits map[string]*sidecallv1.FollowResponse
	there chan struct{}
}

func newNews() *news {
	return &news{waits: make(map[string]*sidecallv1.FollowResponse), there: make(chan struct{}, 1)}
}

// add takes a notification in. It never waits.
func (n *news) add(method string, params json.RawMessage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := method + string(params)
	if len(n.waits) == maxNews && n.waits[key] == nil {
		return
	}
	n.waits[key] = &sidecallv1.FollowResponse{Method: method, ParamsJson: carried(string(params))}
	select {
	case n.there <- struct{}{}:
	default:
	}
}

func (n *news) take() []*sidecallv1.FollowResponse {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]*sidecallv1.FollowResponse, 0, len(n.waits))
	for key, one := range n.waits {
		all = append(all, one)
		delete(n.waits, key)
	}
	return all
}

// follow tells who follows a profile what changes, until it leaves.
func (m *MCP) follow(ctx context.Context, req *sidecallv1.FollowRequest, stream grpc.ServerStream) error {
	select {
	case m.following <- struct{}{}:
		defer func() { <-m.following }()
	default:
		return status.Error(codes.ResourceExhausted, "too many follow already")
	}
	n := newNews()
	stop := func() {}
	defer func() { stop() }()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	var seen *catalog.Snapshot
	for {
		if now := m.Executor.Catalog.Snapshot(); now != seen {
			profile, err := profileOf(now, req.GetProfile(), m.Offered)
			if err != nil {
				return err
			}
			stop()
			stop = forward.Of(now.Routes(profile)).Listen(n.add)
			seen = now
			n.add(toolsChanged, nil)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		case <-n.there:
			for _, one := range n.take() {
				if err := stream.SendMsg(one); err != nil {
					return err
				}
			}
		}
	}
}
