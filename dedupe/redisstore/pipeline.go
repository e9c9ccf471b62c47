package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
)

const (
	// queueLength bounds the commands that wait; beyond it a caller waits for
	// its turn to wait, until its context ends.
	queueLength = 4096
	// groupLength and groupBytes bound one pipeline.
	groupLength = 128
	groupBytes  = 4 << 20
	// maxServers bounds the servers that have lanes; a Cluster of more masters shares them.
	maxServers = 256
	// mostDecisions bounds how often a step is decided. It is decided again when another
	// process has changed a row in between: one of them always succeeds.
	mostDecisions = 100
	// mostAlone is how often a command is sent by its own caller: as often as it takes to
	// learn the time of a server, its rows, and that it does not know the script.
	mostAlone = 4
)

// pipeline sends the commands of concurrent calls together: a few flushers take
// whatever waits and send it as one write, which costs both sides far less than
// as many writes. Nothing waits to fill a group. A command that is alone is sent
// by its own caller, which saves waking a flusher and being woken by it.
//
// On a Cluster each master has a lane of its own, so that one that hangs does
// not hold up the commands for the others.
type pipeline struct {
	router  *router
	options Options
	quit    chan struct{} // closed when Close begins
	drained chan struct{} // closed when nothing will be sent any more

	doubts doubts

	mu       sync.RWMutex // guards lanes, and that none is opened after quit
	lanes    map[string][]*lane
	flushers sync.WaitGroup

	direct              sync.RWMutex // held while a caller sends its own command
	roundTrips, batches atomic.Uint64
}

func newPipeline(client redis.UniversalClient, options Options) *pipeline {
	return &pipeline{
		router: newRouter(client, options), options: options, lanes: map[string][]*lane{},
		quit: make(chan struct{}), drained: make(chan struct{}),
	}
}

func (p *pipeline) closing() bool {
	select {
	case <-p.quit:
		return true
	default:
		return false
	}
}

// stop sends what waits and ends the flushers.
func (p *pipeline) stop() error {
	p.mu.Lock()
	close(p.quit)
	p.mu.Unlock()
	p.flushers.Wait()
	close(p.drained)
	p.direct.Lock() // until the last caller that sends its own command has done so
	defer p.direct.Unlock()
	return p.router.close()
}

// lane returns the lane of a command. Which one does not matter for where the
// command goes, only for whom it waits with.
func (p *pipeline) lane(ctx context.Context, c *command) (*lane, error) {
	name := p.router.lane(ctx, c)
	p.mu.RLock()
	lanes := p.lanes[name]
	p.mu.RUnlock()
	if lanes == nil {
		var err error
		if lanes, err = p.open(name); err != nil {
			return nil, err
		}
	}
	return lanes[hash(c.key)%uint64(len(lanes))], nil
}

// open opens the lanes to a server. Those whose address is gone stay, idle, until stop: a
// few goroutines, where closing them would have to wait for whoever is just about to use
// one.
func (p *pipeline) open(name string) ([]*lane, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing() {
		return nil, dedupe.ErrClosed
	}
	if lanes := p.lanes[name]; lanes != nil {
		return lanes, nil
	}
	if len(p.lanes) >= maxServers {
		for _, shared := range p.lanes {
			return shared, nil
		}
	}
	clock := &clock{}
	lanes := make([]*lane, p.options.Flushers)
	for i := range lanes {
		l := &lane{options: &p.options, queue: make(chan *command, queueLength), clock: clock}
		lanes[i] = l
		p.flushers.Go(func() { p.flush(l) }) // ends in stop
	}
	p.lanes[name] = lanes
	return lanes, nil
}

// do sends a command and waits for its reply. When ctx ends first, the command
// is withdrawn, or nobody knows. The deadline of ctx bounds all of it; when ctx is
// cancelled before, a command that its caller sends itself still waits for its
// reply, for Options.Timeout (and WaitTimeout) at the most: the client library
// heeds no cancellation, and what was sent could not be taken back.
func (p *pipeline) do(ctx context.Context, c *command) error {
	l, err := p.lane(ctx, c)
	if err != nil {
		return err
	}
	c.done = make(chan struct{})
	defer l.callers.Add(-1)
	if l.callers.Add(1) == 1 && p.sendAlone(ctx, l, c) {
		if over := ended(ctx); c.err != nil && over != nil {
			return fmt.Errorf("gave up waiting for redis: %w", over)
		}
		return c.err
	}
	select {
	case l.queue <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.quit:
		return dedupe.ErrClosed
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		if c.taken.CompareAndSwap(false, true) {
			return fmt.Errorf("withdrawn before it was sent to redis: %w", ctx.Err())
		}
		return fmt.Errorf("gave up waiting for redis: %w", ctx.Err())
	case <-p.drained:
		select {
		case <-c.done: // in the last group
			return c.err
		default:
			return dedupe.ErrClosed
		}
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

// sendAlone sends a command on its caller's goroutine, unless the pipeline is
// closing, or somebody sends who has given up waiting. One that is still to be sent again
// after a few times goes the way of the others.
func (p *pipeline) sendAlone(ctx context.Context, l *lane, c *command) bool {
	p.direct.RLock()
	defer p.direct.RUnlock()
	if p.closing() || !l.turn.TryLock() {
		return false
	}
	defer l.turn.Unlock()
	c.taken.Store(true)
	group := []*command{c}
	for range mostAlone {
		if group = p.send(ctx, l, group); len(group) == 0 {
			return true
		}
	}
	c.taken.Store(false)
	return false
}

// flush is one flusher.
func (p *pipeline) flush(l *lane) {
	for {
		select {
		case c := <-l.queue:
			p.sendWaiting(l, c)
		case <-p.quit:
			for { // what is left
				select {
				case c := <-l.queue:
					p.sendWaiting(l, c)
				default:
					return
				}
			}
		}
	}
}

// sendWaiting sends a command, and whatever waits behind it: also behind those that are to
// be sent again, so that nobody waits for a row that others change all the time.
func (p *pipeline) sendWaiting(l *lane, first *command) {
	l.turn.Lock()
	defer l.turn.Unlock()
	group := gather(l.queue, nil, first)
	for len(group) > 0 {
		group = gather(l.queue, p.send(context.Background(), l, group), nil)
	}
}

// gather collects a group: those that are to be sent again, a command if there is one,
// and whatever waits.
func gather(queue chan *command, group []*command, next *command) []*command {
	bytes := 0
	for _, c := range group {
		bytes += c.weight
	}
	for {
		if next != nil && next.taken.CompareAndSwap(false, true) {
			group, bytes = append(group, next), bytes+next.weight
		}
		if len(group) >= groupLength || bytes >= groupBytes {
			return group
		}
		select {
		case next = <-queue:
		default:
			return group
		}
	}
}

// send sends a group once and answers it, but those that it returns, which are to be sent
// again: a step that was decided by what was not true is decided again, and a server that
// does not know a script gets its source.
func (p *pipeline) send(ctx context.Context, l *lane, group []*command) (again []*command) {
	group = slices.DeleteFunc(group, func(c *command) bool { return !c.decide(l) })
	if len(group) == 0 {
		return nil
	}
	p.exchange(ctx, group)
	for _, c := range group {
		c.hear(l)
	}
	return slices.DeleteFunc(group, (*command).answered)
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
	parts := p.router.route(ctx, group)
	for range maxRedirects {
		p.exchangeParts(ctx, parts)
		if parts = p.router.redirected(ctx, parts); len(parts) == 0 {
			return
		}
	}
}

// exchangeParts sends each part to its server, all at the same time.
func (p *pipeline) exchangeParts(ctx context.Context, parts []part) {
	if len(parts) == 1 {
		p.exchangePart(ctx, parts[0])
		return
	}
	var all sync.WaitGroup
	for _, part := range parts {
		all.Go(func() { p.exchangePart(ctx, part) })
	}
	all.Wait()
}

// exchangePart is one pipeline on one connection. With WaitReplicas a WAIT
// follows on it, which covers everything that was written before it, and is
// answered by the very server that wrote it; none where nothing is written.
func (p *pipeline) exchangePart(ctx context.Context, to part) {
	pipe := to.server.Pipeline()
	sent := make([]*redis.Cmd, len(to.group))
	for i, c := range to.group {
		if to.asking {
			_ = pipe.Process(ctx, redis.NewCmd(ctx, "asking")) // only queues; the error is the command's own
		}
		sent[i] = redis.NewCmd(ctx, c.words...)
		_ = pipe.Process(ctx, sent[i]) // as above
		c.logs = c.readLogs(ctx, pipe, to.asking)
	}
	var waited *redis.Cmd
	if p.options.WaitReplicas > 0 && slices.ContainsFunc(to.group, (*command).writes) {
		waited = redis.NewCmd(ctx, "wait", p.options.WaitReplicas, p.options.WaitTimeout.Milliseconds())
		_ = pipe.Process(ctx, waited) // as above
	}
	_, _ = pipe.Exec(ctx) // as above: the first of the commands' errors
	p.batches.Add(1)

	var ofCalls uint64
	replicated := waited == nil
	if waited != nil {
		n, err := waited.Int64()
		replicated = err == nil && n >= int64(p.options.WaitReplicas)
		if err == nil {
			p.doubts.heard(to.addr, replicated)
		}
	}
	for i, c := range to.group {
		if c.reply, c.err = sent[i].Result(); errors.Is(c.err, redis.Nil) {
			c.err = nil // an answer like any other
		}
		c.replicated = replicated
		if c.ofCall {
			ofCalls++
		}
	}
	p.roundTrips.Add(ofCalls)
}

// Stats counts what the store has done since it was made.
type Stats struct {
	// RoundTrips is the number of commands sent on behalf of calls, repetitions
	// included. A call needs two, a replay one.
	RoundTrips uint64
	// Pipelines is the number of writes that they were sent with.
	Pipelines uint64
}

// pauseBetween is the wait before a command is sent once more.
func pauseBetween(try int) time.Duration { return 10 * time.Millisecond << (2 * try) }
