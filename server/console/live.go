package console

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// liveEvery is how often is looked whether something has changed that a page shows.
	liveEvery = 2 * time.Second
	// maxWatchers bounds the pages that are told of it.
	maxWatchers = 16
)

// watch is what was seen when somebody looked last.
type watch struct {
	mu    sync.Mutex // held while somebody looks
	at    time.Time
	state uint64
}

// live tells a page, by a server-sent event each, when it should be looked at anew.
func (c *Console) live(w http.ResponseWriter, req *http.Request) {
	select {
	case c.following <- struct{}{}:
		defer func() { <-c.following }()
	default:
		http.Error(w, fmt.Sprintf("%d pages follow already", maxWatchers), http.StatusTooManyRequests)
		return
	}
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	if _, err := fmt.Fprint(w, "retry: 5000\n\n"); err != nil || out.Flush() != nil {
		return
	}
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	last := c.state(req)
	for {
		select {
		case <-req.Context().Done():
			return
		case <-tick.C:
		}
		now := c.state(req)
		event := ": nothing new\n\n" // so that who has left is noticed
		if now != last {
			last, event = now, "event: changed\ndata: \n\n"
		}
		if _, err := fmt.Fprint(w, event); err != nil || out.Flush() != nil {
			return
		}
	}
}

// state stands for what the pages show now, of whichever tenant; 0 where the sidecar does not
// say. Pages that ask at about the same time are told the same.
func (c *Console) state(req *http.Request) uint64 {
	c.watch.mu.Lock()
	defer c.watch.mu.Unlock()
	if time.Since(c.watch.at) > liveEvery/2 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), askTimeout)
		defer cancel()
		c.watch.state, c.watch.at = c.lookNow(ctx), time.Now()
	}
	return c.watch.state
}

func (c *Console) lookNow(ctx context.Context) uint64 {
	unknown, err := c.options.Operator.ListUnknown(ctx, &sidecallv1.ListUnknownRequest{PageSize: listed})
	if err != nil {
		return 0
	}
	held, err := c.options.Operator.ListHeld(ctx, &sidecallv1.ListHeldRequest{PageSize: listed})
	if err != nil {
		return 0
	}
	overview, err := c.options.Operator.GetOverview(ctx, &sidecallv1.GetOverviewRequest{})
	if err != nil {
		return 0
	}
	for _, tool := range overview.GetTools() {
		tool.BlockedFor = nil // it changes by itself
	}
	sum := fnv.New64a()
	for _, m := range []proto.Message{unknown, held, overview} {
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m) // it has just been read
		_, _ = sum.Write(text)                                          // a hash never fails
	}
	return sum.Sum64()
}
