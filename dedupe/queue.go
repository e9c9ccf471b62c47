package dedupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// What is handed out at a time: so many entries, of so many bytes beyond the first. It
	// bounds the memory of a replay, and the load on a store that has just come back.
	groupLength = 32
	groupBytes  = 4 << 20
	// putsAtOnce bounds how many entries the disk is given at a time.
	putsAtOnce = 16
)

// queue is which late settlements wait in a journal, and in what order.
type queue struct {
	journal Journal
	max     int64         // bytes
	turns   chan struct{} // has one of each put under way
	gaveUp  atomic.Uint64 // the last entry of the group that ended the last replay; 0: none did
	wake    chan struct{} // the replay has a reason to look now
	puts    sync.WaitGroup
	reading chan struct{} // has one while an entry is read or removed; taken before mu

	mu     sync.Mutex
	closed bool
	bytes  int64 // of those that wait or are put
	waits  map[uint64]Waiting
	newest map[tool.CallID]Waiting // of those that wait
}

func newQueue(journal Journal, max int64) *queue {
	q := &queue{journal: journal, max: max, turns: make(chan struct{}, putsAtOnce), wake: make(chan struct{}, 1), reading: make(chan struct{}, 1), waits: map[uint64]Waiting{}, newest: map[tool.CallID]Waiting{}}
	for _, e := range journal.Waiting() {
		q.bytes += e.Bytes
		q.add(e)
	}
	return q
}

// put keeps a settlement, and takes as long as the disk does, which no context ends. The error
// wraps ErrFull, ErrInvalid or ErrClosed, or is one of the disk.
func (q *queue) put(late Late) (err error) {
	e := Waiting{Key: late.Settlement.Key, Bytes: late.Bytes()}
	if err := q.reserve(e.Bytes); err != nil {
		return err
	}
	defer q.puts.Done()
	q.turns <- struct{}{}
	defer func() { <-q.turns }()
	e.Number, err = q.journal.Put(late)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.bytes -= e.Bytes
		return err
	}
	q.add(e)
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
	q.puts.Add(1)
	return nil
}

func (q *queue) add(e Waiting) {
	q.waits[e.Number] = e
	if q.newest[e.Key].Number <= e.Number {
		q.newest[e.Key] = e
	}
	Nudge(q.wake)
}

// end takes an entry out; false when it does not wait any more.
func (q *queue) end(e Waiting) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, waits := q.waits[e.Number]; !waits {
		return false
	}
	delete(q.waits, e.Number)
	q.bytes -= e.Bytes
	if q.newest[e.Key] == e {
		delete(q.newest, e.Key)
	}
	return true
}

func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waits)
}

// find returns the newest entry of a key; false when none waits, or it cannot be read now.
func (q *queue) find(ctx context.Context, key tool.CallID) (e Waiting, late Late, ok bool) {
	q.mu.Lock()
	e, ok = q.newest[key]
	q.mu.Unlock()
	if ok {
		late, ok, _ = q.read(ctx, e)
	}
	return e, late, ok
}

// read reads an entry; false when it does not wait any more, as one that can never be read.
// With an error it waits and cannot be read now.
func (q *queue) read(ctx context.Context, e Waiting) (late Late, ok bool, err error) {
	read := new(Late) // which a disk that is late may still write
	err = q.alone(ctx, func() (err error) {
		q.mu.Lock()
		_, ok := q.waits[e.Number]
		q.mu.Unlock()
		if !ok { // nor can it be read any more
			return ErrCorrupt
		}
		*read, err = q.journal.Get(e.Number)
		return err
	})
	switch {
	case err == nil:
		return *read, true, nil
	case errors.Is(err, ErrCorrupt):
		q.end(e)
		return Late{}, false, nil
	}
	return Late{}, false, err
}

// alone asks the journal for something, with nobody else about an entry meanwhile. A disk that hangs is
// waited for until the deadline of ctx, or for putTimeout; one that answers at once has the time always.
func (q *queue) alone(ctx context.Context, ask func() error) error {
	within := putTimeout
	if end, ok := ctx.Deadline(); ok {
		within = min(within, max(time.Until(end), patienceDown))
	}
	late := time.After(within)
	select {
	case q.reading <- struct{}{}:
	case <-late:
		return errSlowDisk
	}
	return inTime(late, func() error {
		defer func() { <-q.reading }()
		return ask()
	})
}

// done ends an entry; false when it had ended already. The error says that the next process
// replays it once more.
func (q *queue) done(ctx context.Context, e Waiting) (ended bool, err error) {
	if !q.end(e) {
		return false, nil
	}
	return true, q.alone(ctx, func() error { return q.journal.Remove(e.Number) })
}

// replay hands out the entries that wait, oldest first, a group at a time. One for which
// deliver returns nil has ended; the others stay. It goes on as long as some of a group end, and
// begins where the one before gave up: a group that the store refuses for its own sake, which
// may be one large entry, stands in nobody's way. It returns how many have ended, and an error
// when entries are left.
func (q *queue) replay(ctx context.Context, deliver func(context.Context, Waiting, Late) error) (ended int, left error) {
	for rest := q.inOrder(); len(rest) > 0; {
		if err := ctx.Err(); err != nil {
			return ended, err
		}
		n := groupOf(rest)
		stay := make(chan error, n)
		var all sync.WaitGroup
		for _, e := range rest[:n] {
			all.Go(func() {
				late, ok, err := q.read(ctx, e)
				if ok {
					err = Survive(func() error { return deliver(ctx, e, late) })
				}
				if err != nil {
					stay <- err
				}
			})
		}
		all.Wait()
		stayed := len(stay)
		if ended += n - stayed; stayed > 0 {
			left = <-stay
		}
		if stayed == n { // it would hardly be better with the others
			q.gaveUp.Store(rest[n-1].Number)
			break
		}
		rest = rest[n:]
	}
	return ended, left
}

// inOrder returns what waits, from where the last replay gave up, and then what is older.
func (q *queue) inOrder() []Waiting {
	q.mu.Lock()
	defer q.mu.Unlock()
	from := q.gaveUp.Swap(0) + 1
	return slices.SortedFunc(maps.Values(q.waits), func(a, b Waiting) int {
		return cmp.Compare(a.Number-from, b.Number-from) // those before it are very large
	})
}

func groupOf(entries []Waiting) int {
	n, bytes := 1, entries[0].Bytes
	for n < min(len(entries), groupLength) && bytes+entries[n].Bytes <= groupBytes {
		bytes += entries[n].Bytes
		n++
	}
	return n
}

// close ends the journal, once what is being put is there. A disk that hangs is given up.
func (q *queue) close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	err := inTime(time.After(putTimeout), func() error {
		q.puts.Wait()
		return nil
	})
	if err != nil {
		return fmt.Errorf("settlements may be lost: %w", err)
	}
	return q.journal.Close()
}
