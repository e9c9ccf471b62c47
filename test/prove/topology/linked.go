//go:build prove

package topology

import (
	"net"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/testkit/faultproxy"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// linkFrozen is how long a replica hears nothing before its master dies.
const linkFrozen = 500 * time.Millisecond

// behindProxies is a Cluster whose nodes are known, to each other and to clients,
// by the addresses of proxies. They agree about who is master past them.
type behindProxies struct {
	*redisserver.Cluster

	t       *testing.T
	proxies map[*redisserver.Server]*faultproxy.Proxy
	slot    int // whose master is next
}

func startBehindProxies(t *testing.T) *behindProxies {
	t.Helper()
	c := &behindProxies{
		// However old its data is, a replica is promoted.
		Cluster: redisserver.StartCluster(t, 3, 3, "--cluster-replica-validity-factor", "0"),
		t:       t, proxies: map[*redisserver.Server]*faultproxy.Proxy{},
	}
	for _, node := range c.Nodes {
		c.proxies[node] = faultproxy.Start(t, node.Addr)
		node.Do("config", "set", "cluster-announce-port", c.port(node))
		node.Do("config", "rewrite") // for when it is started again
	}
	for _, master := range c.Masters() {
		c.awaitLink(c.ReplicaOf(master), master)
	}
	return c
}

// port is that of the proxy before a node.
func (c *behindProxies) port(node *redisserver.Server) string {
	c.t.Helper()
	_, port, err := net.SplitHostPort(c.proxies[node].Addr())
	if err != nil {
		c.t.Fatal(err)
	}
	return port
}

// awaitLink waits until a replica copies its master, through the proxy.
func (c *behindProxies) awaitLink(replica, master *redisserver.Server) {
	c.t.Helper()
	replica.AwaitInfo("master_port", c.port(master))
	replica.AwaitInfo("master_link_status", "up")
}

// failOver freezes the link of one master with its replica, and nothing else,
// for a while, kills the master, and starts it again when the replica has taken
// over. What the link held is lost, as on a wire.
func (c *behindProxies) failOver() {
	c.t.Helper()
	old := c.MasterOf(c.slot)
	heir, proxy := c.ReplicaOf(old), c.proxies[old]
	c.awaitLink(heir, old)
	before := proxy.Counts().Frozen
	proxy.FreezeWhere(func(conn *faultproxy.Conn) bool { return conn.Said("psync") })
	time.Sleep(linkFrozen) // the fault is a length of time
	old.Kill()
	if proxy.Counts().Frozen == before {
		c.t.Error("nothing was held on the replication link")
	}
	proxy.Refuse(true)
	proxy.Cut()
	proxy.Thaw()
	c.AwaitHeir(old, heir)
	proxy.Refuse(false)
	old.Restart()
	c.awaitLink(old, heir)
	c.AwaitOK()
	c.slot = (c.slot + 5461) % 16384 // another master's turn
}
