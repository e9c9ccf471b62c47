package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

const (
	// queueLength bounds the requests that wait; a caller beyond it waits for
	// its turn to wait, until its context ends.
	queueLength = 4096
	// groupLength and groupBytes bound one transaction.
	groupLength = 1024
	// tidyEvery is how often a store looks at its file, and for what has expired.
	tidyEvery = time.Second
)

// committer is the one goroutine that writes.
type committer struct {
	db     *database
	queue  chan *operation
	quit   chan struct{} // closed when Close begins
	exited chan struct{} // closed when the committer has ended
}

func newCommitter(d *database) *committer {
	c := &committer{
		db:     d,
		queue:  make(chan *operation, queueLength),
		quit:   make(chan struct{}),
		exited: make(chan struct{}),
	}
	go c.run() // ends in stop
	return c
}

func (c *committer) closing() bool {
	select {
	case <-c.quit:
		return true
	default:
		return false
	}
}

// stuckAfter is how long the committer of a store that has failed has to end.
const stuckAfter = time.Second

// stop commits what waits and ends the committer. That of a store that has failed
// may be stuck at the disk for ever: it is left there.
func (c *committer) stop() {
	close(c.quit)
	<-c.db.over
	timer := time.NewTimer(stuckAfter)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
	}
}

// do hands an operation to the committer and waits until it is on the disk. An
// error of the context may mean either; an operation withdrawn in time has had
// no effect.
func (c *committer) do(ctx context.Context, op *operation) error {
	if err := c.enqueue(ctx, op); err != nil {
		return err
	}
	select {
	case <-op.done:
		return op.err
	case <-ctx.Done():
		if op.withdraw() {
			return fmt.Errorf("withdrawn before it was stored: %w", ctx.Err())
		}
		return fmt.Errorf("gave up waiting for the disk: %w", ctx.Err())
	case <-c.db.over:
		select {
		case <-op.done: // in the last group
			return op.err
		default:
			op.withdraw()
			return c.db.ended()
		}
	}
}

// enqueue hands an operation over; when the queue is full, it waits for its turn.
func (c *committer) enqueue(ctx context.Context, op *operation) error {
	select {
	case c.queue <- op:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.quit:
		return dedupe.ErrClosed
	case <-c.db.over:
		return c.db.ended()
	}
}

func (c *committer) run() {
	defer close(c.exited)
	defer c.db.end()
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case op := <-c.queue:
			c.commit(c.gather(op))
		case <-ticker.C:
			c.tidy()
		case <-c.quit:
			c.drain()
			c.tidy()
			return
		}
	}
}

// gather collects the group that begins with an operation: whatever waits.
func (c *committer) gather(first *operation) []*operation {
	group, bytes := []*operation{first}, first.bytes
	for yields := 0; yields < 3 && len(group) < groupLength && bytes < groupBytes; {
		select {
		case op := <-c.queue:
			group, bytes, yields = append(group, op), bytes+op.bytes, 0
		default:
			// The callers that the last group has just set free are about to
			// ask again. Letting them run first costs microseconds and saves
			// committing the quickest of them alone.
			runtime.Gosched()
			yields++
		}
	}
	return group
}

// drain commits what is left in the queue.
func (c *committer) drain() {
	for {
		select {
		case op := <-c.queue:
			c.commit(c.gather(op))
		default:
			return
		}
	}
}

// commit applies a group and answers all of it.
func (c *committer) commit(group []*operation) {
	live := slices.DeleteFunc(group, func(op *operation) bool { return !op.take() })
	for len(live) > 0 {
		if failure := c.db.failure.Load(); failure != nil {
			answer(live, *failure)
			return
		}
		err := c.db.transactReclaiming(live)
		live = fitting(live, err)
	}
}

// fitting answers a group; of one for which there is no room only the greediest. It
// returns the others, for which there may be.
func fitting(group []*operation, err error) (others []*operation) {
	if !errors.Is(err, dedupe.ErrFull) {
		answer(group, err)
		return nil
	}
	most := slices.MaxFunc(group, func(a, b *operation) int { return cmp.Compare(a.room, b.room) }).room
	var refused []*operation
	for _, op := range group {
		if op.room == most {
			refused = append(refused, op)
		} else {
			others = append(others, op)
		}
	}
	answer(refused, err)
	return others
}

func answer(group []*operation, err error) {
	for _, op := range group {
		op.finish(cmp.Or(op.err, err))
	}
}

// tidy keeps the store in order. One that has failed is left as it is.
func (c *committer) tidy() {
	if c.db.failure.Load() != nil {
		return
	}
	if err := c.db.tidy(c.busy); err != nil && c.db.failure.Load() == nil {
		c.db.options.Log.Warn("expired records could not be removed", "path", c.db.file.path, "error", err)
	}
}

// busy reports that somebody waits.
func (c *committer) busy() bool { return len(c.queue) > 0 || c.closing() }
