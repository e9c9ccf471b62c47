package dedupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

const (
	// What is handed out at a time: so many entries, of so many bytes beyond the first.
	// It bounds the memory of a replay, and the load on a store that has just come back.
	groupLength = 32
	groupBytes  = 4 << 20
	// putsAtOnce bounds what a disk that hangs can hold up.
	putsAtOnce = 16
)

// queue is the late settlements that wait: what of them is in memory, over the journal
// that has their contents.
type queue struct {
	journal Journal
	max     int64         // bytes
	puts    chan struct{} // has one of each put under way

	mu     sync.Mutex
	closed bool
	bytes  int64           // of those that wait or are put
	order  []*queued       // by number
	newest map[Key]*queued // of each key
	gaveUp uint64          // the last entry of the group that ended the last replay; 0: none did
}

// queued is an entry that waits.
type queued struct {
	Waiting
	mu    sync.Mutex // held while it is read or ended
	ended bool
}

func newQueue(journal Journal, max int64) *queue {
	q := &queue{journal: journal, max: max, puts: make(chan struct{}, putsAtOnce), newest: map[Key]*queued{}}
	for _, entry := range journal.Waiting() {
		q.bytes += entry.Bytes
		q.add(&queued{Waiting: entry})
	}
	return q
}

// put keeps a settlement. The error wraps ErrFull, ErrInvalid or ErrClosed, or is one of
// ctx or of the disk. With one of ctx it may still be kept.
func (q *queue) put(ctx context.Context, late Late) error {
	bytes := late.Bytes()
	if err := q.reserve(bytes); err != nil {
		return err
	}
	kept := make(chan error, 1)
	select {
	case q.puts <- struct{}{}:
		go func() { // ends with the disk's part
			kept <- q.putNow(late, bytes)
			<-q.puts
		}()
	case <-ctx.Done():
		q.release(bytes)
	}
	select {
	case err := <-kept:
		return err
	case <-ctx.Done():
		return fmt.Errorf("gave up waiting for the disk: %w", ctx.Err())
	}
}

func (q *queue) putNow(late Late, bytes int64) error {
	number, err := q.journal.Put(late)
	if err != nil {
		q.release(bytes)
		return err
	}
	q.add(&queued{Waiting: Waiting{number, late.Settlement.Key, bytes}})
	return nil
}

func (q *queue) reserve(bytes int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case q.bytes+bytes > q.max:
		return fmt.Errorf("%w: %d bytes of late settlements wait, at most %d may", ErrFull, q.bytes, q.max)
	}
	q.bytes += bytes
	return nil
}

func (q *queue) release(bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= bytes
}

// at is the place of a number in the order.
func (q *queue) at(number uint64) int {
	at, _ := slices.BinarySearchFunc(q.order, number, func(e *queued, n uint64) int { return cmp.Compare(e.Number, n) })
	return at
}

func (q *queue) add(e *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.order = slices.Insert(q.order, q.at(e.Number), e)
	if before := q.newest[e.Key]; before == nil || before.Number < e.Number {
		q.newest[e.Key] = e
	}
}

// end takes an entry out, whose lock is held.
func (q *queue) end(e *queued) {
	e.ended = true
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.at(e.Number)
	q.order = slices.Delete(q.order, at, at+1)
	q.bytes -= e.Bytes
	if q.newest[e.Key] == e {
		delete(q.newest, e.Key)
	}
}

// waiting is how many wait.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.order)
}

// find returns the newest entry of a key that waits; nil when none does, or it cannot be
// read now, which a replay tells.
func (q *queue) find(key Key) (*queued, Late) {
	q.mu.Lock()
	e := q.newest[key]
	q.mu.Unlock()
	if e == nil {
		return nil, Late{}
	}
	late, err := q.read(e)
	if err != nil {
		return nil, Late{}
	}
	return e, late
}

// errEnded says of an entry that it does not wait any more.
var errEnded = errors.New("it has ended")

// read reads an entry. One that can never be read ends.
func (q *queue) read(e *queued) (Late, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return Late{}, errEnded
	}
	late, err := q.journal.Get(e.Number)
	if errors.Is(err, ErrCorrupt) {
		q.end(e)
		err = errEnded
	}
	return late, err
}

// done ends an entry; false when it had ended already. The error says that the next
// process will replay it once more.
func (q *queue) done(e *queued) (ended bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return false, nil
	}
	q.end(e)
	return true, q.journal.Remove(e.Number)
}

// replay hands out the entries that wait, oldest first, a group at a time. One for which
// deliver returns nil has ended; the others stay. It goes on as long as some of a group
// end, and begins where the one before gave up: a group that the store refuses for its
// own sake, which may be one large entry, stands in nobody's way. It returns how many
// have ended, and an error when entries are left.
func (q *queue) replay(ctx context.Context, deliver func(context.Context, *queued, Late) error) (ended int, left error) {
	for rest := q.fromWhereItGaveUp(); len(rest) > 0; {
		if err := ctx.Err(); err != nil {
			return ended, err
		}
		n := groupOf(rest)
		taken, err := q.handOut(ctx, rest[:n], deliver)
		ended += taken
		if err != nil {
			left = err
		}
		if taken == 0 { // it would hardly be better with the others
			q.mu.Lock()
			q.gaveUp = rest[n-1].Number
			q.mu.Unlock()
			break
		}
		rest = rest[n:]
	}
	return ended, left
}

func (q *queue) fromWhereItGaveUp() []*queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	from := q.at(q.gaveUp + 1)
	q.gaveUp = 0
	return slices.Concat(q.order[from:], q.order[:from])
}

// groupOf is how many of the first entries are a group.
func groupOf(entries []*queued) int {
	n, bytes := 1, entries[0].Bytes
	for n < min(len(entries), groupLength) && bytes+entries[n].Bytes <= groupBytes {
		bytes += entries[n].Bytes
		n++
	}
	return n
}

func (q *queue) handOut(ctx context.Context, group []*queued, deliver func(context.Context, *queued, Late) error) (ended int, left error) {
	errs := make([]error, len(group))
	var all sync.WaitGroup
	for i, e := range group {
		all.Go(func() {
			late, err := q.read(e)
			if err == nil {
				err = deliver(ctx, e, late)
			}
			errs[i] = err
		})
	}
	all.Wait()
	for _, err := range errs {
		if err == nil || errors.Is(err, errEnded) {
			ended++
		} else {
			left = err
		}
	}
	return ended, left
}

// close ends the journal, once what is being put is there.
func (q *queue) close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	for range putsAtOnce {
		q.puts <- struct{}{}
	}
	return q.journal.Close()
}
