package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
)

// maxRedirects bounds how often a command follows its slot within one exchange.
const maxRedirects = 5

// pipeliner is a server that takes pipelines.
type pipeliner interface{ Pipeline() redis.Pipeliner }

// part is what goes to one server in one pipeline.
type part struct {
	server pipeliner
	addr   string // on a Cluster
	// asking says that the slot is on its way to the server, which takes its
	// commands only when they are announced.
	asking bool
	group  []*command
}

// router knows which server a command belongs to.
//
// On a Cluster the client library could do this itself, but its pipeline sends
// everything again when a connection is lost, and takes a WAIT to any node. So
// the library keeps the map of the slots, and the rest is done here.
type router struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // nil when there is but one server
	options Options

	mu     sync.Mutex
	closed bool
	// elsewhere are clients of nodes that were named by a redirection, by
	// address: as many as there were since the start. One whose node is gone
	// stays until close.
	elsewhere map[string]*redis.Client
}

func newRouter(client redis.UniversalClient, options Options) *router {
	cluster, _ := client.(*redis.ClusterClient)
	return &router{client: client, cluster: cluster, options: options, elsewhere: map[string]*redis.Client{}}
}

// lane names the server that a command probably goes to.
func (r *router) lane(ctx context.Context, c *command) string {
	if r.cluster == nil {
		return ""
	}
	master, err := r.cluster.MasterForKey(ctx, c.key)
	if err != nil {
		return "" // it will fail, and need not hold up others
	}
	return master.Options().Addr
}

// route divides a group among the masters. A command that has none gets the
// error.
func (r *router) route(ctx context.Context, group []*command) []part {
	if r.cluster == nil {
		return []part{{server: r.client, group: group}}
	}
	var parts []part
	for _, c := range group {
		master, err := r.cluster.MasterForKey(ctx, c.key)
		if err != nil {
			c.err = err
			continue
		}
		parts = add(parts, part{server: master, addr: master.Options().Addr}, c)
	}
	return parts
}

// add adds a command to the part that goes where to says.
func add(parts []part, to part, c *command) []part {
	for i := range parts {
		if parts[i].addr == to.addr && parts[i].asking == to.asking {
			parts[i].group = append(parts[i].group, c)
			return parts
		}
	}
	to.group = []*command{c}
	return append(parts, to)
}

// redirected returns what has to be sent elsewhere, because the servers that
// were asked said so.
func (r *router) redirected(ctx context.Context, asked []part) []part {
	if r.cluster == nil {
		return nil
	}
	var parts []part
	for _, from := range asked {
		for _, c := range from.group {
			if c.err == nil {
				continue
			}
			addr, asking := redirection(c.err, from.addr)
			if _, said := errors.AsType[redis.Error](c.err); !said || addr != "" && !asking {
				r.cluster.ReloadState(ctx) // the server is lost, or the slot has moved
			}
			if addr == "" {
				continue
			}
			server, err := r.at(addr)
			if err != nil {
				c.err = err
				continue
			}
			parts = add(parts, part{server: server, addr: addr, asking: asking}, c)
		}
	}
	return parts
}

// redirection reads where a server at an address sends a command to; empty when
// it does not.
func redirection(err error, from string) (addr string, asking bool) {
	addr, ok := redis.IsMovedError(err)
	if !ok {
		if addr, asking = redis.IsAskError(err); !asking {
			return "", false
		}
	}
	host, port, err := net.SplitHostPort(addr)
	if err == nil && host == "" { // the same host as the one that says so
		if host, _, err = net.SplitHostPort(from); err == nil {
			addr = net.JoinHostPort(host, port)
		}
	}
	return addr, asking
}

// at returns a client of the node at an address.
func (r *router) at(addr string) (*redis.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, dedupe.ErrClosed
	}
	client := r.elsewhere[addr]
	if client == nil {
		client = redis.NewClient(r.options.node(addr))
		r.elsewhere[addr] = client
	}
	return client, nil
}

// close closes the clients that the router has made.
func (r *router) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var errs []error
	for _, client := range r.elsewhere {
		errs = append(errs, client.Close())
	}
	return errors.Join(errs...)
}

// masters returns the servers that hold the records, by address; one without a
// name when there is but one.
func masters(ctx context.Context, client redis.UniversalClient) (map[string]redis.Cmdable, error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return map[string]redis.Cmdable{"": client}, nil
	}
	var mu sync.Mutex
	found := map[string]redis.Cmdable{}
	err := cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		found[master.Options().Addr] = master
		return nil
	})
	if err == nil && len(found) == 0 {
		err = errors.New("the redis cluster has no master")
	}
	return found, err
}
