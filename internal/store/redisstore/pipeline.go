package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
)

const (
	// maxServers bounds the servers of which something is known: those of a Cluster come and go.
	maxServers = 256
	// mostAlone is how often a command is sent by its own caller: as often as it takes to
	// learn the time of a server, its rows, and that it does not know the script.
	mostAlone = 4
	// maxRedirects bounds how often a command follows its slot within one exchange.
	maxRedirects = 5
)

// pipeline sends the commands of concurrent calls together, as one write, which costs both
// sides far less than as many writes. Each master has a lane of its own, so that one that hangs
// does not hold up the commands for the others: one, since two make shorter groups, which cost
// both sides more than they wait for each other. On a Cluster the client library's own pipeline
// sends everything again when a connection is lost, and takes a WAIT to any node: the library
// keeps only the map of the slots.
type pipeline struct {
	only    *redis.Client        // nil on a Cluster
	cluster *redis.ClusterClient // nil when there is but one server
	options *Options

	roundTrips atomic.Uint64

	mu     sync.Mutex       // guards what follows, and that nothing begins when it is closed
	closed atomic.Bool      // which whoever only looks may read
	under  sync.WaitGroup   // commands, and who sends them
	lanes  map[string]*lane // by the address of the server
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
func (p *pipeline) stop() {
	p.mu.Lock()
	p.closed.Store(true)
	p.mu.Unlock()
	p.under.Wait()
}

// lane returns the way to the server at an address. When there are too many, all of them are
// forgotten, and learnt again.
func (p *pipeline) lane(addr string) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lanes[addr] == nil {
		if len(p.lanes) >= maxServers {
			clear(p.lanes)
		}
		p.lanes[addr] = &lane{options: p.options}
	}
	return p.lanes[addr]
}

// master is the server of a key.
func (p *pipeline) master(ctx context.Context, key string) (*redis.Client, error) {
	if p.cluster == nil {
		return p.only, nil
	}
	return p.cluster.MasterForKey(ctx, key)
}

// of returns the way to the server that the command of a key probably goes to. One
// that has none fails, and need not hold up others.
func (p *pipeline) of(ctx context.Context, key string) *lane {
	master, err := p.master(ctx, key)
	if err != nil {
		return p.lane("")
	}
	return p.lane(master.Options().Addr)
}

// do does a step once, and returns what is to be done after it. When ctx ends first, the step
// comes to nothing, or nobody knows. The deadline of ctx bounds all of it; when ctx is
// cancelled before, a command that its caller sends itself still waits for its reply, for
// Options.Timeout (and WaitTimeout) at the most: the client library heeds no cancellation, and
// what was sent could not be taken back.
func (p *pipeline) do(ctx context.Context, key string, step *dedupe.Step) (after *command, err error) {
	if err := p.begin(); err != nil {
		return nil, err
	}
	defer p.under.Done()
	c, l := newCommand(ctx, key, step), p.of(ctx, key)
	first, alone := l.enter(c)
	defer l.callers.Add(-1)
	switch {
	case alone:
		p.sendAlone(ctx, l, c)
	case first:
		p.under.Go(func() { p.sendWaiting(l, nil) })
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("gave up waiting for redis: %w", ctx.Err()) // whoever sends it may still have it
	}
	after, err = c.rows.after, c.err
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // of the connection, which has that of ctx
		err = fmt.Errorf("gave up waiting for redis: %w: %w", context.DeadlineExceeded, err)
	case err == nil && !c.replicated && step.Binds:
		err = p.options.tooFew()
	}
	c.free()
	return after, err
}

// sendAlone sends a command on its caller's goroutine. One that is still to be sent again
// after a few times goes with those that have come since.
func (p *pipeline) sendAlone(ctx context.Context, l *lane, c *command) {
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
}

// sendWaiting sends a group, and what waits behind it.
func (p *pipeline) sendWaiting(l *lane, group []*command) {
	for group = l.gather(group); len(group) > 0; {
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

// exchange sends a group once to where it belongs, from the first byte to the last reply.
// ctx ends it early; nobody knows then.
func (p *pipeline) exchange(ctx context.Context, group []*command) {
	limit := p.options.Timeout
	if p.options.WaitReplicas > 0 {
		limit += p.options.WaitTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	master, err := p.master(ctx, group[0].key) // all of a lane have one, or are redirected
	if err != nil {
		for _, c := range group {
			c.err = err
		}
		return
	}
	p.exchangeWith(ctx, master, false, group)
	for n := 1; n < maxRedirects; n++ {
		i := slices.IndexFunc(group, func(c *command) bool { return c.to.addr != "" })
		if i < 0 {
			return
		}
		to := group[i].to
		same := slices.DeleteFunc(slices.Clone(group), func(c *command) bool { return c.to != to })
		options := p.options.universal().Simple()
		options.Addr = to.addr
		node := redis.NewClient(options) // which the library need not know yet, nor we any more then
		p.exchangeWith(ctx, node, to.asking, same)
		_ = node.Close() // all has been answered
	}
}

// exchangeWith is one pipeline on one connection. With WaitReplicas a WAIT follows on it,
// which covers everything that was written before it, and is answered by the very server
// that wrote it; none where nothing is changed.
func (p *pipeline) exchangeWith(ctx context.Context, server *redis.Client, asking bool, group []*command) {
	pipe, addr := server.Pipeline(), server.Options().Addr
	changes := false
	for _, c := range group {
		if asking {
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
	p.roundTrips.Add(uint64(len(group)))
	replicated := waited == nil
	if waited != nil {
		n, err := waited.Int64()
		if replicated = err == nil && n >= int64(p.options.WaitReplicas); err == nil {
			p.lane(addr).few.Store(!replicated)
		}
	}
	for _, c := range group {
		c.reply, c.err = c.sent.Result()
		c.replicated, c.to = replicated, redirection{}
		if c.err != nil && p.cluster != nil {
			c.to = redirectionOf(c.err, addr)
			if _, said := errors.AsType[redis.Error](c.err); !said || c.to.addr != "" && !c.to.asking {
				p.cluster.ReloadState(ctx) // the server is lost, or the slot has moved
			}
		}
	}
}

// redirection is where a server sends a command to whose slot it does not have, or no more
// all of. The one that is getting the slot takes its commands only when they are announced.
type redirection struct {
	addr   string
	asking bool
}

// redirectionOf reads where a server at an address sends a command to; nowhere when it does
// not.
func redirectionOf(err error, from string) (to redirection) {
	var moved bool
	if to.addr, moved = redis.IsMovedError(err); !moved {
		to.addr, to.asking = redis.IsAskError(err)
	}
	if strings.HasPrefix(to.addr, ":") { // the same host as the one that says so
		if host, _, err := net.SplitHostPort(from); err == nil {
			to.addr = net.JoinHostPort(host, to.addr[1:])
		}
	}
	return to
}
