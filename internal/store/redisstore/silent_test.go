//go:build e2e

package redisstore

import (
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// A subscription on which nothing comes any more, not even the answer to a question, is made anew.
func TestASilentSubscriptionIsMadeAnew(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	p := faultproxy.Start(t, srv.Addr)
	s := open(t, Options{Addrs: []string{p.Addr()}})
	hints, stop := s.Watch(request("x", tool.NonIdempotent).Key)
	defer stop()
	heard := func(when string) {
		t.Helper()
		select {
		case <-hints: // the subscription has begun
		case <-time.After(time.Minute):
			t.Fatal("it is not subscribed", when)
		}
	}
	heard("at first")
	last := 0
	for _, c := range p.Conns() {
		last = max(last, c.ID())
	}
	p.FreezeWhere(func(c *faultproxy.Conn) bool { return c.ID() <= last })
	defer p.Thaw()
	heard("again")
}
