package mcptool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sidecall/sidecall/internal/backend"
)

// What a server says to everybody is kept once, and bounded: a thousand of it was kept for each who
// did not read it.
func TestWhoHearsAServerCostsLittle(t *testing.T) {
	b := &Backend{listening: newListeners()}
	there := make(chan struct{}, 1)
	const many, fill = 100, 4000
	before := held()
	for range many {
		b.Listen(there)
	}
	for i := range 3 * maxSaid {
		b.listening.tell("notifications/resources/updated", fmt.Appendf(nil, `{"uri":"%d%s"}`, i, strings.Repeat("x", fill)))
	}
	if most := uint64(2 * maxSaid * fill); held()-before > most {
		t.Errorf("%d bytes are held for %d who do not read", held()-before, many)
	}
	runtime.KeepAlive(b)
}

func held() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Each hears what was said since it came, in its order, and of several alike the last.
func TestEachHearsAServerInItsOwnTime(t *testing.T) {
	b := &Backend{listening: newListeners()}
	there := make(chan struct{}, 1)
	b.listening.tell("notifications/resources/updated", []byte(`0`))
	early, stop := b.Listen(there)
	for _, said := range []string{`1`, `2`, `1`} {
		b.listening.tell("notifications/resources/updated", []byte(said))
	}
	<-there
	late, _ := b.Listen(there)
	b.listening.tell("notifications/resources/updated", []byte(`3`))
	for name, c := range map[string]struct {
		next func() (backend.Note, bool)
		want string
	}{"early": {early, "213"}, "late": {late, "3"}} {
		got := ""
		for note, ok := c.next(); ok; note, ok = c.next() {
			got += note.Params
		}
		if got != c.want {
			t.Errorf("%s hears %s, want %s", name, got, c.want)
		}
	}
	stop()
	if len(b.listening.hear) != 1 {
		t.Error("it listens after its end")
	}
}

// Who leaves while it subscribes, or while it ends that, leaves nothing behind at the server.
func TestWhoLeavesLeavesNoSubscriptionBehind(t *testing.T) {
	var begun, there atomic.Int64
	asked, let := make(chan struct{}, 1), make(chan struct{})
	server := mcp.NewServer(&mcp.Implementation{Name: "news", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler: func(context.Context, *mcp.SubscribeRequest) error {
			select {
			case asked <- struct{}{}:
			default: // it may be told again
			}
			<-let
			there.Store(1)
			begun.Add(1)
			return nil
		},
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { there.Store(0); return nil },
	})
	server.AddResource(&mcp.Resource{URI: "test://a", Name: "a"}, nil)
	s := newSite(t, mcp.StreamableHTTPOptions{})
	s.inner = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	r := run(t, s.config(t))
	r.current()

	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := r.Subscribe(ctx, "test://a")
		left <- err
	}()
	<-asked
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("it has left: %v", err)
	}
	close(let)
	waitFor(t, "nothing is left of who left while it subscribed", func() bool { return begun.Load() > 0 && there.Load() == 0 })

	end, err := r.Subscribe(t.Context(), "test://a")
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "there is one again", func() bool { return there.Load() == 1 })
	_ = end(ctx) // which is over
	waitFor(t, "nothing is left of who left while it ended that", func() bool { return there.Load() == 0 })
}
