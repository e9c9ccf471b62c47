package redisserver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// slots is the number of hash slots of every Cluster.
const slots = 16384

const (
	// meetAgain is how long the nodes of a Cluster have to answer each other before
	// they are told once more to meet.
	meetAgain = 3 * time.Second
	// failoverAgain is how long a replica has to take over before it is told so
	// once more: a node gives up after five seconds, and says so to nobody.
	failoverAgain = 6 * time.Second
)

// Cluster is a Redis Cluster.
type Cluster struct {
	// Nodes are the masters as started, and after them the replicas: the first
	// replica is that of the first master, and so on.
	Nodes []*Server

	tb  testing.TB
	ids map[*Server]string
}

// StartCluster starts a Cluster whose masters share the slots evenly, and waits
// until every node finds it whole and every replica has its data. Nobody is
// replaced before AwaitHeir: on a busy machine the living are silent too.
func StartCluster(tb testing.TB, masters, replicas int, args ...string) *Cluster {
	tb.Helper()
	return StartClusterOf(tb, masters, replicas, Options{Args: args})
}

// StartClusterOf is StartCluster with other options than Args.
func StartClusterOf(tb testing.TB, masters, replicas int, options Options) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, Nodes: make([]*Server, masters+replicas), ids: map[*Server]string{}}
	options.Args = append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", millis(neverMissed), "--cluster-allow-replica-migration", "no",
		// A replica takes over however long ago it heard of its master: on a machine
		// that stood still meanwhile it would give up for good.
		"--cluster-replica-validity-factor", "0",
	}, options.Args...)
	if options.TLS {
		options.Args = append(options.Args, "--tls-cluster", "yes")
	}
	for i := range c.Nodes {
		c.Nodes[i] = Start(tb, options)
		c.ids[c.Nodes[i]] = fmt.Sprint(c.Nodes[i].Do("cluster", "myid"))
	}
	for i, node := range c.Nodes {
		node.Do("cluster", "set-config-epoch", i+1)
		if i < masters {
			node.Do("cluster", "addslotsrange", i*slots/masters, (i+1)*slots/masters-1)
		}
		c.meet(node, c.Nodes[:i])
	}
	for _, node := range c.Nodes {
		met := time.Now()
		waitFor(tb, "the nodes of the cluster to know each other", func() bool {
			if time.Since(met) > meetAgain {
				c.meet(node, c.Nodes)
				met = time.Now()
			}
			return c.knowsAll(node)
		})
	}
	for i, replica := range c.Nodes[masters:] {
		replica.Do("cluster", "replicate", c.ids[c.Nodes[i%masters]])
	}
	for i, replica := range c.Nodes[masters:] {
		replica.AwaitInfo("master_link_status", "up")
		c.Nodes[i%masters].awaitReplica(replica)
	}
	c.AwaitOK()
	for _, node := range c.Nodes {
		waitFor(tb, "the nodes of the cluster to know its replicas", func() bool {
			return len(c.from(node, func(v view) bool { return v.has("slave") })) == replicas
		})
	}
	return c
}

// meet makes a node greet others. On a busy machine a node may be too late to
// answer, and is then forgotten.
func (c *Cluster) meet(node *Server, others []*Server) {
	c.tb.Helper()
	for _, other := range others {
		host, port := split(c.tb, other.Addr)
		if other != node {
			node.Do("cluster", "meet", host, port)
		}
	}
}

// Addrs are those of all nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr
	}
	return addrs
}

// AwaitOK waits until every node that answers finds the Cluster whole, and there
// is one that does.
func (c *Cluster) AwaitOK() {
	c.tb.Helper()
	waitFor(c.tb, "cluster_state:ok on all nodes", func() bool {
		whole := 0
		for _, node := range c.Nodes {
			text, err := node.Try("cluster", "info")
			switch {
			case err != nil:
			case fieldOf(text, "cluster_state") == "ok":
				whole++
			default:
				return false
			}
		}
		return whole > 0
	})
}

// Slot is the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.tb.Helper()
	slot, _ := c.first().Do("cluster", "keyslot", key).(int64)
	return int(slot)
}

// MasterOf is the node that serves a slot, as the first node that answers sees
// it. It waits until there is one.
func (c *Cluster) MasterOf(slot int) *Server {
	c.tb.Helper()
	return c.await(fmt.Sprintf("one node to serve slot %d", slot), func() []*Server {
		return c.from(c.first(), func(v view) bool { return v.has("master") && !v.has("fail") && v.serves(slot) })
	})
}

// ReplicaOf is the node that copies a master, as the master sees it. It waits
// until there is one: a node that is back copies its master for seconds before
// the master no longer takes it for dead.
func (c *Cluster) ReplicaOf(master *Server) *Server {
	c.tb.Helper()
	return c.await(fmt.Sprintf("one replica of %s", master.Addr), func() []*Server {
		return c.from(master, func(v view) bool { return v.master == c.ids[master] && !v.has("fail") })
	})
}

// await waits until exactly one node is found.
func (c *Cluster) await(what string, find func() []*Server) *Server {
	c.tb.Helper()
	var found []*Server
	waitFor(c.tb, what, func() bool {
		found = find()
		return len(found) == 1
	})
	return found[0]
}

// Masters are the nodes that are masters now, as the first that answers sees it.
func (c *Cluster) Masters() []*Server {
	c.tb.Helper()
	return c.from(c.first(), func(v view) bool { return v.has("master") && !v.has("fail") })
}

// Failover makes a replica change places with its master, which has to live,
// and waits until it has.
func (c *Cluster) Failover(replica *Server) {
	c.tb.Helper()
	var asked time.Time
	waitFor(c.tb, "the role of "+replica.Addr+" to be master", func() bool {
		if replica.Info("role") == "master" {
			return true
		}
		if time.Since(asked) > failoverAgain {
			_, _ = replica.Try("cluster", "failover") // refused while its master seems to be down
			asked = time.Now()
		}
		return false
	})
	c.AwaitOK()
}

// AwaitHeir waits until a replica has taken the place of its master, which is
// dead or hangs: until then the other nodes soon miss who is silent.
func (c *Cluster) AwaitHeir(old, heir *Server) {
	c.tb.Helper()
	missAfter := func(silence time.Duration) {
		for _, node := range c.Nodes {
			if node != old {
				node.Do("config", "set", "cluster-node-timeout", millis(silence))
			}
		}
	}
	missAfter(soonMissed)
	heir.AwaitInfo("role", "master")
	missAfter(neverMissed)
}

// ReplaceMaster kills the master of a slot, waits until its replica has taken its
// place, and starts it again, as the replica of its heir.
func (c *Cluster) ReplaceMaster(slot int) (old, heir *Server) {
	c.tb.Helper()
	old = c.MasterOf(slot)
	heir = c.ReplicaOf(old)
	old.Kill()
	c.AwaitHeir(old, heir)
	old.Restart()
	old.AwaitInfo("master_link_status", "up")
	c.AwaitOK()
	return old, heir
}

// MoveSlot moves a slot with its keys to another master, as an operator would,
// while clients go on.
func (c *Cluster) MoveSlot(slot int, to *Server) {
	c.tb.Helper()
	from := c.MasterOf(slot)
	if from == to {
		return
	}
	c.BeginMove(slot, from, to)
	c.MoveKeys(slot, from, to)
	c.EndMove(slot, from, to)
}

// BeginMove is the first step of MoveSlot: from now on the old master answers
// ASK for the keys that it does not have.
func (c *Cluster) BeginMove(slot int, from, to *Server) {
	c.tb.Helper()
	to.Do("cluster", "setslot", slot, "importing", c.ids[from])
	from.Do("cluster", "setslot", slot, "migrating", c.ids[to])
}

// MoveKeys is the second step: it moves the keys that the slot has.
func (c *Cluster) MoveKeys(slot int, from, to *Server) {
	c.tb.Helper()
	host, port := split(c.tb, to.Addr)
	for {
		keys, _ := from.Do("cluster", "getkeysinslot", slot, 100).([]any)
		if len(keys) == 0 {
			return
		}
		from.Do(append([]any{"migrate", host, port, "", 0, 10_000, "keys"}, keys...)...)
	}
}

// EndMove is the last step: from now on the old master answers MOVED.
func (c *Cluster) EndMove(slot int, from, to *Server) {
	c.tb.Helper()
	to.Do("cluster", "setslot", slot, "node", c.ids[to])
	from.Do("cluster", "setslot", slot, "node", c.ids[to])
	for _, master := range c.Masters() {
		if master != from && master != to {
			master.Do("cluster", "setslot", slot, "node", c.ids[to])
		}
	}
}

// first is the first node that answers.
func (c *Cluster) first() *Server {
	c.tb.Helper()
	for _, node := range c.Nodes {
		if _, err := node.Try("ping"); err == nil {
			return node
		}
	}
	c.tb.Fatal("no node of the cluster answers")
	return nil
}

func (c *Cluster) knowsAll(node *Server) bool {
	return len(c.from(node, func(v view) bool { return v.linked && !v.has("handshake") })) == len(c.Nodes)
}

// from are the nodes of which a node says what is asked for.
func (c *Cluster) from(node *Server, wanted func(view) bool) []*Server {
	text, err := node.Try("cluster", "nodes")
	if err != nil {
		return nil
	}
	var found []*Server
	for _, v := range parseNodes(fmt.Sprint(text)) {
		for _, server := range c.Nodes {
			if c.ids[server] == v.id && wanted(v) {
				found = append(found, server)
			}
		}
	}
	return found
}

// view is what one node knows of another.
type view struct {
	id, master string
	flags      []string
	linked     bool
	slots      []string
}

// parseNodes reads the answer of CLUSTER NODES.
func parseNodes(text string) []view {
	var views []view
	for line := range strings.Lines(text) {
		// id, address, flags, master, ping, pong, epoch, link, slots...
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		views = append(views, view{id: f[0], flags: strings.Split(f[2], ","), master: f[3], linked: f[7] == "connected", slots: f[8:]})
	}
	return views
}

func (v view) has(flag string) bool { return slices.Contains(v.flags, flag) }

func (v view) serves(slot int) bool {
	for _, s := range v.slots {
		first, last, isRange := strings.Cut(s, "-")
		if !isRange {
			last = first
		}
		low, err := strconv.Atoi(first)
		if err != nil {
			continue // a slot on its way: [12->-id]
		}
		high, err := strconv.Atoi(last)
		if err == nil && low <= slot && slot <= high {
			return true
		}
	}
	return false
}

// KillAll kills every node at the same time.
func (c *Cluster) KillAll() {
	var all sync.WaitGroup
	for _, node := range c.Nodes {
		all.Go(node.Kill)
	}
	all.Wait()
}
