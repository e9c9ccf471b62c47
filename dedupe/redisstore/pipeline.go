package redisstore

import (
	"context"
	"errors"
	"fmt"
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
)

// pipeline sends the commands of concurrent calls together: a few flushers take
// whatever waits and send it as one write, which costs both sides far less than
// as many writes. Nothing waits to fill a group. A command that is alone is sent
// by its own caller, which saves waking a flusher and being woken by it.
type pipeline struct {
	client  redis.UniversalClient
	options Options
	queue   chan *command
	quit    chan struct{} // closed when Close begins
	drained chan struct{} // closed when nothing will be sent any more

	callers             atomic.Int64 // in do
	direct              sync.RWMutex // held while a caller sends its own command
	roundTrips, batches atomic.Uint64
}

// command is one command on its way.
type command struct {
	words  []any
	script *script // nil for a plain command
	weight int

	taken atomic.Bool   // by a flusher, or by its caller, which withdraws it
	done  chan struct{} // closed when the rest is final
	reply any
	err   error
	// replicated says that enough replicas have what the command wrote.
	replicated bool
}

func newPipeline(client redis.UniversalClient, options Options) *pipeline {
	p := &pipeline{
		client: client, options: options,
		queue: make(chan *command, queueLength),
		quit:  make(chan struct{}), drained: make(chan struct{}),
	}
	var flushers sync.WaitGroup
	for range options.Flushers {
		flushers.Go(p.flush) // ends in stop
	}
	go func() { // ends with the flushers
		flushers.Wait()
		close(p.drained)
	}()
	return p
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
func (p *pipeline) stop() {
	close(p.quit)
	<-p.drained
	p.direct.Lock() // until the last caller that sends its own command has done so
	defer p.direct.Unlock()
}

// do sends a command and waits for its reply. When ctx ends first, the command
// is withdrawn, or nobody knows.
func (p *pipeline) do(ctx context.Context, c *command) error {
	c.done = make(chan struct{})
	defer p.callers.Add(-1)
	if p.callers.Add(1) == 1 && p.sendAlone(ctx, c) {
		if over := ended(ctx); c.err != nil && over != nil {
			return fmt.Errorf("gave up waiting for redis: %w", over)
		}
		return c.err
	}
	select {
	case p.queue <- c:
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
// closing.
func (p *pipeline) sendAlone(ctx context.Context, c *command) bool {
	p.direct.RLock()
	defer p.direct.RUnlock()
	if p.closing() {
		return false
	}
	c.taken.Store(true)
	p.send(ctx, []*command{c})
	return true
}

// flush is one flusher.
func (p *pipeline) flush() {
	for {
		select {
		case c := <-p.queue:
			p.send(context.Background(), p.gather(c))
		case <-p.quit:
			for { // what is left
				select {
				case c := <-p.queue:
					p.send(context.Background(), p.gather(c))
				default:
					return
				}
			}
		}
	}
}

// gather collects the group that begins with a command: whatever waits.
func (p *pipeline) gather(first *command) []*command {
	group, bytes := make([]*command, 0, 16), 0
	for c := first; ; {
		if c.taken.CompareAndSwap(false, true) {
			group, bytes = append(group, c), bytes+c.weight
		}
		if len(group) >= groupLength || bytes >= groupBytes {
			return group
		}
		select {
		case c = <-p.queue:
		default:
			return group
		}
	}
}

// send sends a group and answers it. A script that the server does not know is
// sent again with its source, together with the others of its kind.
func (p *pipeline) send(ctx context.Context, group []*command) {
	if len(group) == 0 {
		return
	}
	p.exchange(ctx, group)
	var unknown []*command
	for _, c := range group {
		if c.err != nil && c.script != nil && redis.HasErrorPrefix(c.err, "NOSCRIPT") {
			c.words, c.script = c.script.withSource(c.words), nil
			unknown = append(unknown, c)
		} else {
			close(c.done)
		}
	}
	p.send(ctx, unknown)
}

// exchange is one pipeline, from its first byte to its last reply. With
// WaitReplicas a WAIT follows on the same connection, which covers everything
// that was written before it. ctx ends it early; nobody knows then.
func (p *pipeline) exchange(ctx context.Context, group []*command) {
	wait := p.options.WaitReplicas > 0
	limit := p.options.Timeout
	if wait {
		limit += p.options.WaitTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	pipe := p.client.Pipeline()
	sent := make([]*redis.Cmd, len(group), len(group)+1)
	for i, c := range group {
		sent[i] = redis.NewCmd(ctx, c.words...)
		_ = pipe.Process(ctx, sent[i]) // only queues; the error is the command's own
	}
	var waited *redis.Cmd
	if wait {
		waited = redis.NewCmd(ctx, "wait", p.options.WaitReplicas, p.options.WaitTimeout.Milliseconds())
		_ = pipe.Process(ctx, waited) // as above
	}
	_, _ = pipe.Exec(ctx) // as above: the first of the commands' errors
	p.batches.Add(1)
	p.roundTrips.Add(uint64(len(group)))

	replicated := !wait
	if wait {
		n, err := waited.Int64()
		replicated = err == nil && n >= int64(p.options.WaitReplicas)
	}
	for i, c := range group {
		if c.reply, c.err = sent[i].Result(); errors.Is(c.err, redis.Nil) {
			c.err = nil // an answer like any other
		}
		c.replicated = replicated
	}
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
