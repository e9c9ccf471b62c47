package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
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
	// sweepEvery is how often an idle store looks for what has expired.
	sweepEvery = time.Second
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
// may be stuck in the engine for ever, at a lock that somebody died with: it is
// left there.
func (c *committer) stop() {
	close(c.quit)
	<-c.db.over
	timer := time.NewTimer(stuckAfter)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
		c.db.wedged.Store(true)
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
	// A file cut short under us is a fault on a mapped page: an error of this
	// store, not the end of the process.
	debug.SetPanicOnFault(true)
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case op := <-c.queue:
			c.commit(c.gather(op))
		case <-ticker.C:
			c.sweepAll()
		case <-c.quit:
			c.drain()
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

// commit applies a group and answers all of it. An operation that cannot be
// applied fails alone; the others are applied again without it.
func (c *committer) commit(group []*operation) {
	live := group[:0]
	for _, op := range group {
		if op.take() {
			live = append(live, op)
		}
	}
	for len(live) > 0 {
		if failure := c.db.failure.Load(); failure != nil {
			answer(live, *failure)
			return
		}
		bad, err := c.db.transact(live)
		if bad >= 0 {
			live[bad].finish(err)
			live = append(live[:bad:bad], live[bad+1:]...)
		} else {
			live = fitting(live, err)
		}
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

// sweepAll forgets what has expired, in transactions of its own, as long as
// nobody waits.
func (c *committer) sweepAll() {
	for len(c.queue) == 0 && !c.closing() && c.db.failure.Load() == nil {
		swept, err := c.db.sweepOnce()
		if err != nil {
			c.db.options.Log.Warn("expired records could not be removed", "path", c.db.path, "error", err)
		}
		if err != nil || !swept {
			return
		}
	}
}

// transact applies the operations in one transaction and commits it if any of
// them changed something. bad is the index of the one that must be left out of
// the next try; -1 when the transaction decided all of them.
func (d *database) transact(ops []*operation) (bad int, err error) {
	t, err := d.beginWrite()
	if err != nil {
		return -1, err
	}
	for i, op := range ops {
		before := t.writes
		err := d.try(op, t)
		if err == nil {
			continue
		}
		if t.writes == before && !errors.Is(err, errPanic) {
			op.err = err // it failed before it changed anything
			continue
		}
		return i, errors.Join(err, d.rollback(t.tx))
	}
	if t.writes == 0 {
		return -1, d.rollback(t.tx)
	}
	if err := d.sweep(t, 2*len(ops)+2); err != nil {
		// It met a record that is damaged.
		return -1, errors.Join(d.fail(err), d.rollback(t.tx))
	}
	return -1, d.finishTx(t)
}

var errPanic = errors.New("panic in the store")

// try applies one operation, and makes an error of its panic.
func (d *database) try(op *operation, t *txn) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %w", errPanic, d.met(p))
		}
	}()
	op.err = nil
	return op.apply(t)
}
