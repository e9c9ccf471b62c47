//go:build prove

package redisfault

import (
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

const masterName = "main"

// linkFault breaks the replication link; happened counts that it did.
type linkFault struct {
	name     string
	begin    func(*faultproxy.Proxy)
	end      func(*faultproxy.Proxy)
	happened func(faultproxy.Counts) int
}

var linkFaults = []linkFault{
	{
		"silent", // neither side learns of it
		func(p *faultproxy.Proxy) { p.FreezeWhere(isReplication) },
		(*faultproxy.Proxy).Thaw,
		func(c faultproxy.Counts) int { return c.Frozen },
	},
	{
		"cut", // the replica connects again and again
		func(p *faultproxy.Proxy) {
			p.Hook(func(c *faultproxy.Conn) faultproxy.Hook {
				return func(faultproxy.Direction, []byte) faultproxy.Action {
					if isReplication(c) {
						return faultproxy.Reset(0)
					}
					return faultproxy.Pass
				}
			})
			p.CutWhere(isReplication)
		},
		func(p *faultproxy.Proxy) { p.Hook(nil) },
		func(c faultproxy.Counts) int { return c.Cut },
	},
}

func isReplication(c *faultproxy.Conn) bool { return c.Said("psync") || c.Said("replconf") }

// watched is a master with one replica, and the three Sentinels that watch it.
// All, and the clients, know the master by the address of a proxy.
type watched struct {
	t               *testing.T
	master, replica *redisserver.Server
	proxy           *faultproxy.Proxy
	sentinels       []*redisserver.Server
	addrs           []string // of the Sentinels
}

func startWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, master: redisserver.Start(t, redisserver.Options{})}
	w.proxy = faultproxy.Start(t, w.master.Addr)
	w.replica = redisserver.StartReplica(t, w.proxy.Addr(), redisserver.Options{})
	w.sentinels = redisserver.StartSentinels(t, 3, masterName, w.proxy.Addr(), redisserver.SentinelOptions{Replicas: 1})
	for _, s := range w.sentinels {
		w.addrs = append(w.addrs, s.Addr)
	}
	return w
}

// breakLink breaks the replication link, and nothing else, for a while.
func (w *watched) breakLink(fault linkFault, lasts time.Duration) {
	w.t.Helper()
	for _, s := range w.sentinels {
		if at := s.MasterByName(masterName); at != w.proxy.Addr() {
			w.t.Fatalf("the Sentinels replaced a master that was well, by %s", at)
		}
	}
	fault.begin(w.proxy)
	time.Sleep(lasts) // the fault is a length of time
	if fault.happened(w.proxy.Counts()) == 0 {
		w.t.Errorf("the replication link never was %s", fault.name)
	}
}

// failOver kills the master, and waits until the replica is promoted. What the
// broken link held is lost, as on a wire.
func (w *watched) failOver() {
	w.t.Helper()
	w.master.Kill()
	w.proxy.Refuse(true)
	w.proxy.Cut()
	redisserver.AwaitOther(w.t, w.sentinels, masterName, w.proxy.Addr())
	w.replica.AwaitInfo("role", "master")
}
