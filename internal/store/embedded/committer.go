package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

const (
	// queueLength bounds the requests that wait; a caller beyond it waits for
	// its turn to wait, until its context ends.
	queueLength = 4096
	// looksAtOnce bounds the looks, each of which takes a thread while it waits for the disk.
	looksAtOnce = 256
	// groupLength, and groupBytes of what they write, bound the operations of one transaction.
	groupLength = 1024
	groupBytes  = 16 << 20
	// tidyEvery is how often a store looks at its file, and for what has expired.
	tidyEvery = time.Second
	// stuckAfter is how long the committer, and who reads, have to end when the store is closed.
	stuckAfter = 3 * time.Second
)

// operation is one request on its way through the committer. Its caller waits for done.
type operation struct {
	dedupe.Step

	// taken is set by the committer, or by the caller who withdraws the operation, whoever
	// comes first.
	taken atomic.Bool
	done  chan struct{} // closed when err and what apply has found are final
	err   error
}

func newOperation(step *dedupe.Step) *operation {
	return &operation{Step: *step, done: make(chan struct{})}
}

func (o *operation) take() bool { return !o.taken.Swap(true) }

// stop commits what waits, ends the committer, and lets go of the file. A disk that stands still
// holds up nobody: then the file is let go of once it goes on, and not under what is written to it.
func (s *Store) stop() error {
	s.shut(dedupe.ErrClosed)
	released := make(chan error, 1)
	go func() {
		<-s.exited
		s.mu.Lock() // nobody reads any more
		defer s.mu.Unlock()
		released <- s.file.Close()
	}()
	select {
	case err := <-released:
		return err
	case <-time.After(stuckAfter):
		return s.fail(errors.New("the disk stood still when the store was closed"))
	}
}

// do hands a step to the committer and waits until it is on the disk. An error of the context
// may mean either; one withdrawn in time has had no effect.
func (s *Store) do(ctx context.Context, step *dedupe.Step) error {
	op := newOperation(step)
	if err := s.usable(ctx); err != nil {
		return err
	}
	if s.queue == nil {
		s.serve([]*operation{op})
		return op.err
	}
	select {
	case s.queue <- op:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.open.Done():
		return context.Cause(s.open)
	}
	select {
	case <-op.done:
		return op.err
	case <-ctx.Done():
		if op.take() {
			op.Apply = nil // what it has is not kept for as long as it is in the queue
			return fmt.Errorf("withdrawn before it was stored: %w", ctx.Err())
		}
		return fmt.Errorf("gave up waiting for the disk: %w", ctx.Err())
	case <-s.life.Done():
		select {
		case <-op.done: // in the last group
			return op.err
		default:
			return context.Cause(s.life)
		}
	}
}

// commits is the committer, the one goroutine that writes.
func (s *Store) commits() {
	defer close(s.exited)
	defer s.end(dedupe.ErrClosed)
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case op := <-s.queue:
			s.serve(s.gather(op))
		case <-ticker.C:
			s.tidy()
		case <-s.open.Done():
			for len(s.queue) > 0 {
				s.serve(s.gather(<-s.queue))
			}
			s.tidy()
			return
		}
	}
}

func (s *Store) gather(first *operation) []*operation {
	group, bytes := []*operation{first}, first.Bytes
	for yields := 0; yields < 3 && len(group) < groupLength && bytes < groupBytes; {
		select {
		case op := <-s.queue:
			group, bytes, yields = append(group, op), bytes+op.Bytes, 0
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

func (s *Store) serve(group []*operation) {
	group = slices.DeleteFunc(group, func(op *operation) bool { return !op.take() })
	for len(group) > 0 {
		err := context.Cause(s.life)
		if err == nil {
			err = s.transactReclaiming(group)
		}
		group = fitting(group, err)
	}
}

// fitting answers a group; of one for which there is no room only the greediest. It
// returns the others, for which there may be.
func fitting(group []*operation, err error) (others []*operation) {
	most := dedupe.Frees
	if errors.Is(err, dedupe.ErrFull) {
		most = slices.MaxFunc(group, func(a, b *operation) int { return cmp.Compare(a.Demand, b.Demand) }).Demand
	}
	for _, op := range group {
		if op.Demand < most {
			others = append(others, op)
			continue
		}
		op.err = cmp.Or(op.err, err)
		close(op.done)
	}
	return others
}

// tidy looks at the file, whoever asks or not, lets go of what has expired, as long as nobody
// waits, and notes whether there is room for a new call. A store that has failed is left as it is.
func (s *Store) tidy() {
	s.writing.Lock()
	defer s.writing.Unlock()
	defer s.dies(new(error))
	if s.life.Err() != nil {
		return
	}
	if err := s.file.asLeft(); err != nil {
		_ = s.fail(err) // which tells it
		return
	}
	s.pass()
	full := s.vacancy()
	for end := s.file.end; (full != nil || s.wasteful()) && s.file.tail < end && len(s.queue) == 0 && s.open.Err() == nil; full = s.vacancy() {
		progress, why := s.reclaim()
		full = cmp.Or(why, full)
		if why != nil || !progress {
			break
		}
	}
	if s.life.Err() == nil {
		s.tell(full)
	}
}
