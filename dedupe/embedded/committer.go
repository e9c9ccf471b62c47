package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/failpoint"
)

const (
	// queueLength bounds the requests that wait; a caller beyond it waits for
	// its turn to wait, until its context ends.
	queueLength = 4096
	// groupLength and groupBytes bound one transaction.
	groupLength = 1024
	groupBytes  = 16 << 20
	// sweepEvery is how often an idle store looks for what has expired.
	sweepEvery = time.Second
)

// committer is the one goroutine that writes.
type committer struct {
	store  *Store
	queue  chan operation
	quit   chan struct{} // closed when Close begins
	exited chan struct{} // closed when nothing will be committed any more
}

func newCommitter(s *Store) *committer {
	c := &committer{
		store:  s,
		queue:  make(chan operation, queueLength),
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

// stop commits what waits and ends the committer.
func (c *committer) stop() {
	close(c.quit)
	<-c.exited
}

// do hands an operation to the committer and waits until it is on the disk. An
// error of the context may mean either; an operation withdrawn in time has had
// no effect.
func (c *committer) do(ctx context.Context, op operation) error {
	p := op.wait()
	select {
	case c.queue <- op:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.quit:
		return dedupe.ErrClosed
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		if p.withdraw() {
			return fmt.Errorf("withdrawn before it was stored: %w", ctx.Err())
		}
		return fmt.Errorf("gave up waiting for the disk: %w", ctx.Err())
	case <-c.exited:
		select {
		case <-p.done: // in the last group
			return p.err
		default:
			return dedupe.ErrClosed
		}
	}
}

func (c *committer) run() {
	defer close(c.exited)
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
func (c *committer) gather(first operation) []operation {
	group, bytes := []operation{first}, first.weight()
	for yields := 0; yields < 3 && len(group) < groupLength && bytes < groupBytes; {
		select {
		case op := <-c.queue:
			group, bytes, yields = append(group, op), bytes+op.weight(), 0
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
func (c *committer) commit(group []operation) {
	live := group[:0]
	for _, op := range group {
		if op.wait().take() {
			live = append(live, op)
		}
	}
	for len(live) > 0 {
		if failure := c.store.failure.Load(); failure != nil {
			finish(live, *failure)
			return
		}
		bad, err := c.store.transact(live)
		if bad < 0 {
			finish(live, err)
			return
		}
		live[bad].wait().finish(err)
		live = append(live[:bad:bad], live[bad+1:]...)
	}
}

func finish(group []operation, err error) {
	for _, op := range group {
		if p := op.wait(); p.err == nil {
			p.finish(err)
		} else {
			p.finish(p.err)
		}
	}
}

// sweepAll forgets what has expired, in transactions of its own, as long as
// nobody waits.
func (c *committer) sweepAll() {
	for len(c.queue) == 0 && !c.closing() && c.store.failure.Load() == nil {
		swept, err := c.store.sweepOnce()
		if err != nil {
			c.store.options.Log.Warn("expired records could not be removed", "path", c.store.path, "error", err)
		}
		if err != nil || !swept {
			return
		}
	}
}

// transact applies the operations in one transaction and commits it if any of
// them changed something. bad is the index of the one that must be left out of
// the next try; -1 when the transaction decided all of them.
func (s *Store) transact(ops []operation) (bad int, err error) {
	tx, err := s.db.Begin(true)
	if err != nil {
		return -1, closedError(err)
	}
	t := newTxn(tx, s)
	for i, op := range ops {
		before := t.writes
		err := try(op, t)
		if err == nil {
			continue
		}
		if t.writes == before && !errors.Is(err, errPanic) {
			op.wait().err = err // it failed before it changed anything
			continue
		}
		return i, errors.Join(err, s.rollback(tx))
	}
	if t.writes == 0 {
		return -1, s.rollback(tx)
	}
	if err := s.sweep(t, 2*len(ops)+2); err != nil {
		// It met a record that is damaged.
		return -1, errors.Join(s.fail(err), s.rollback(tx))
	}
	return -1, s.finishTx(t)
}

var errPanic = errors.New("panic in the store")

// try applies one operation, and makes an error of its panic.
func try(op operation, t *txn) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %w: %v", errPanic, dedupe.ErrCorrupt, p)
		}
	}()
	op.wait().err = nil
	return op.apply(t)
}

// noLonger begins the engine's error for a file that could not be made longer,
// whose cause it hides. It is found before anything is written.
const noLonger = "file resize error: "

// finishTx commits. Only errors that leave the file as it was before can be
// survived; after any other, nobody knows what the file holds.
func (s *Store) finishTx(t *txn) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.wedged.Store(true)
			err = s.fail(fmt.Errorf("%w: %v", dedupe.ErrCorrupt, p))
		}
	}()
	id := int64(t.tx.ID())
	if err := t.setNumber(clockKey, dedupe.Millis(t.now)); err != nil {
		return errors.Join(err, s.rollback(t.tx))
	}
	failpoint.Hit(failpoint.CommitUnwritten)
	err = s.commit(t.tx)
	failpoint.Hit(failpoint.CommitSynced)
	switch {
	case err == nil:
		s.index.apply(t.moved)
		s.durable.Store(id)
		return nil
	case s.counts(id):
		return s.fail(err)
	case errors.Is(err, berrors.ErrMaxSizeReached):
		return fmt.Errorf("%w: %s may not grow beyond %d bytes", dedupe.ErrFull, s.path, s.options.MaxFileBytes)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG),
		strings.HasPrefix(err.Error(), noLonger):
		return fmt.Errorf("there is no room for the store %s: %w", s.path, err)
	default:
		return s.fail(err)
	}
}

// counts reports whether the file holds a transaction whose commit failed. The
// engine syncs once more after it has written the page that makes one count: a
// disk that is full only then leaves the transaction there, to last or not.
func (s *Store) counts(id int64) bool {
	tx, err := s.db.Begin(false)
	if err != nil {
		return true // nobody knows
	}
	counts := int64(tx.ID()) >= id
	return tx.Rollback() != nil || counts
}

// rollback forgets a transaction.
func (s *Store) rollback(tx *bbolt.Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.wedged.Store(true)
			err = s.fail(fmt.Errorf("%w: %v", dedupe.ErrCorrupt, p))
		}
	}()
	return tx.Rollback()
}

// read runs look on a state that is on the disk.
func (s *Store) read(ctx context.Context, look func(t *txn) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if durable, err := s.view(look); durable || err != nil {
		return err
	}
	return s.committer.do(ctx, &readOp{pending: newPending(), look: look})
}
