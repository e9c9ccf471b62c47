package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
)

const (
	// maxServers bounds the servers of which something is known.
	maxServers = 256
	// mostAlone is how often a command is sent by its own caller: as often as it takes to
	// learn the time of a server, its rows, and that it does not know the script.
	mostAlone = 4
	// maxRedirects bounds how often a command follows its slot within one exchange.
	maxRedirects = 5
)

// pipeline sends the commands of concurrent calls together, as one write, which costs both
// sides far less than as many writes.
//
// On a Cluster the client library could do this itself, but its pipeline sends
// everything again when a connection is lost, and takes a WAIT to any node. So
// the library keeps the map of the slots, and the rest is done here. Each master has lanes
// of its own, so that one that hangs does not hold up the commands for the others.
type pipeline struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // nil when there is but one server
	options *Options

	roundTrips, batches atomic.Uint64

	mu      sync.Mutex         // guards what follows, and that nothing begins when it is closed
	closed  atomic.Bool        // which whoever only looks may read
	under   sync.WaitGroup     // commands, and who sends them
	servers map[string]*server // by address, which is empty when there is but one
	// elsewhere are clients of nodes that were named by a redirection, by
	// address: as many as there were since the start. One whose node is gone
	// stays until stop.
	elsewhere map[string]*redis.Client
}

// server is what is known of a server.
type server struct {
	options *Options
	clock   clock
	lanes   []lane
	// few says that it had too few replicas at its last exchange. What is claimed there is
	// not acknowledged, and has to be given back: so one request at a time asks for a
	// claim, until there are enough again, and the others are answered from their records,
	// or refused.
	few, asks atomic.Bool
}

func newServer(options *Options) *server {
	s := &server{options: options, lanes: make([]lane, options.Flushers)}
	for i := range s.lanes {
		s.lanes[i].server = s
	}
	return s
}

// begin counts a command, unless the pipeline is closed.
func (p *pipeline) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return dedupe.ErrClosed
	}
	p.under.Add(1)
	return nil
}

// stop ends when what is under way has been answered.
func (p *pipeline) stop() (err error) {
	p.mu.Lock()
	p.closed.Store(true)
	p.mu.Unlock()
	p.under.Wait()
	for _, client := range p.elsewhere {
		err = errors.Join(err, client.Close())
	}
	return err
}

// server returns what is known of the server at an address. When there are too many all is
// forgotten, and learnt again.
func (p *pipeline) server(addr string) *server {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.servers[addr]
	if found == nil {
		if len(p.servers) >= maxServers {
			clear(p.servers)
		}
		found = newServer(p.options)
		p.servers[addr] = found
	}
	return found
}

// node returns a client of the node at an address.
func (p *pipeline) node(addr string) *redis.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.elsewhere[addr] == nil {
		options := p.options.universal().Simple()
		options.Addr = addr
		p.elsewhere[addr] = redis.NewClient(options)
	}
	return p.elsewhere[addr]
}

// master is the server of a key, and its address on a Cluster.
func (p *pipeline) master(ctx context.Context, key string) (client redis.Cmdable, addr string, err error) {
	if p.cluster == nil {
		return p.client, "", nil
	}
	master, err := p.cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, "", err
	}
	return master, master.Options().Addr, nil
}

// of returns what is known of the server that the command of a key probably goes to. One
// that has none fails, and need not hold up others.
func (p *pipeline) of(ctx context.Context, key string) *server {
	_, addr, _ := p.master(ctx, key)
	return p.server(addr)
}

// do sends a command and waits for its reply. When ctx ends first, the command is
// withdrawn, or nobody knows, and it is not the caller's any more. The deadline of ctx
// bounds all of it; when ctx is cancelled before, a command that its caller sends itself
// still waits for its reply, for Options.Timeout (and WaitTimeout) at the most: the client
// library heeds no cancellation, and what was sent could not be taken back.
func (p *pipeline) do(ctx context.Context, c *command) (answered bool, err error) {
	if err := p.begin(); err != nil {
		return true, err
	}
	defer p.under.Done()
	lanes := p.of(ctx, c.key).lanes
	l := &lanes[hash(c.key)%uint64(len(lanes))]
	first, alone := l.enter(c)
	defer l.leave()
	if first && !alone {
		p.under.Go(func() { p.sendWaiting(l, l.gather(nil)) })
	}
	if alone && p.sendAlone(ctx, l, c) {
		<-c.done
		if over := ended(ctx); c.err != nil && over != nil {
			return true, fmt.Errorf("gave up waiting for redis: %w", over)
		}
		return true, c.err
	}
	select {
	case <-c.done:
		return true, c.err
	case <-ctx.Done():
		return l.withdraw(c), fmt.Errorf("gave up waiting for redis: %w", ctx.Err())
	}
}

// ended is ctx.Err, but does not miss a deadline that the connection has seen a
// moment before the context's own timer.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// sendAlone sends a command on its caller's goroutine. One that is still to be sent again
// after a few times goes with those that have come since.
func (p *pipeline) sendAlone(ctx context.Context, l *lane, c *command) (answered bool) {
	again := []*command{c}
	defer func() { // after a panic too
		if group := l.next(again); len(group) > 0 {
			p.under.Go(func() { p.sendWaiting(l, group) })
		}
	}()
	for tries := 0; len(again) > 0 && tries < mostAlone; tries++ {
		group := again
		again = nil
		again = p.send(ctx, l, group)
	}
	return len(again) == 0
}

// sendWaiting sends a group, and what waits behind it.
func (p *pipeline) sendWaiting(l *lane, group []*command) {
	for len(group) > 0 {
		group = l.gather(p.send(context.Background(), l, group))
	}
}

// send sends a group once and answers it, but those that it returns, which are to be sent
// again: a step that was decided by what was not true is decided again, and a server that
// does not know the script gets its source.
func (p *pipeline) send(ctx context.Context, l *lane, group []*command) (again []*command) {
	group = slices.DeleteFunc(group, func(c *command) bool { return !c.decide(l) })
	if len(group) > 0 {
		p.exchange(ctx, group)
	}
	return slices.DeleteFunc(group, func(c *command) bool { return c.hear(l) })
}

// part is what goes to one server in one pipeline.
type part struct {
	server redis.Cmdable
	addr   string // on a Cluster
	// asking says that the slot is on its way to the server, which takes its
	// commands only when they are announced.
	asking bool
	group  []*command
}

// exchange sends a group once to where it belongs, from the first byte to the
// last reply; on a Cluster also after a slot that has moved. ctx ends it early;
// nobody knows then.
func (p *pipeline) exchange(ctx context.Context, group []*command) {
	limit := p.options.Timeout
	if p.options.WaitReplicas > 0 {
		limit += p.options.WaitTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// All of a lane have one master, or are redirected.
	master, addr, err := p.master(ctx, group[0].key)
	if err != nil {
		for _, c := range group {
			c.err = err
		}
		return
	}
	parts := []part{{server: master, addr: addr, group: group}}
	for n := 0; len(parts) > 0 && n < maxRedirects; n++ {
		var others sync.WaitGroup
		for _, part := range parts[1:] {
			others.Go(func() { p.exchangePart(ctx, part) })
		}
		p.exchangePart(ctx, parts[0])
		others.Wait()
		parts = p.redirected(ctx, parts)
	}
}

// exchangePart is one pipeline on one connection. With WaitReplicas a WAIT
// follows on it, which covers everything that was written before it, and is
// answered by the very server that wrote it; none where nothing is changed.
func (p *pipeline) exchangePart(ctx context.Context, to part) {
	pipe := to.server.Pipeline()
	changes := false
	for _, c := range to.group {
		if to.asking {
			_ = pipe.Do(ctx, "asking") // the error is the command's own
		}
		c.sent = pipe.Do(ctx, c.call()...)
		changes = changes || c.rows.changes()
	}
	var waited *redis.Cmd
	if p.options.WaitReplicas > 0 && changes {
		waited = pipe.Do(ctx, "wait", p.options.WaitReplicas, p.options.WaitTimeout.Milliseconds())
	}
	_, _ = pipe.Exec(ctx) // the first of the commands' errors
	p.batches.Add(1)
	p.roundTrips.Add(uint64(len(to.group)))
	replicated := waited == nil
	if waited != nil {
		n, err := waited.Int64()
		if replicated = err == nil && n >= int64(p.options.WaitReplicas); err == nil {
			p.server(to.addr).few.Store(!replicated)
		}
	}
	for _, c := range to.group {
		c.reply, c.err = c.sent.Result()
		c.replicated = replicated
	}
}

// redirected returns what has to be sent elsewhere, because the servers that
// were asked said so.
func (p *pipeline) redirected(ctx context.Context, asked []part) (parts []part) {
	if p.cluster == nil {
		return nil
	}
	for _, from := range asked {
		for _, c := range from.group {
			if c.err == nil {
				continue
			}
			addr, asking := redirection(c.err, from.addr)
			if _, said := errors.AsType[redis.Error](c.err); !said || addr != "" && !asking {
				p.cluster.ReloadState(ctx) // the server is lost, or the slot has moved
			}
			if addr == "" {
				continue
			}
			i := slices.IndexFunc(parts, func(to part) bool { return to.addr == addr && to.asking == asking })
			if i < 0 {
				i, parts = len(parts), append(parts, part{server: p.node(addr), addr: addr, asking: asking})
			}
			parts[i].group = append(parts[i].group, c)
		}
	}
	return parts
}

// redirection reads where a server at an address sends a command to; empty when
// it does not.
func redirection(err error, from string) (addr string, asking bool) {
	addr, moved := redis.IsMovedError(err)
	if !moved {
		addr, asking = redis.IsAskError(err)
	}
	if strings.HasPrefix(addr, ":") { // the same host as the one that says so
		if host, _, err := net.SplitHostPort(from); err == nil {
			addr = net.JoinHostPort(host, addr[1:])
		}
	}
	return addr, asking
}

// hash spreads conversations over lanes: by what decides the slot of a key.
func hash(key string) uint64 {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	return maphash.String(seed, cmp.Or(tag, key))
}

var seed = maphash.MakeSeed()
