package dedupe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

var errAway = errors.New("connection refused")

// lateOf is the n-th of the late settlements that the tests use.
func lateOf(n int) Late {
	key := tool.CallID{Conversation: fmt.Sprint("c", n), ID: "call_0"}
	return Late{Settlement: Settlement{Key: key, Owner: "here", Epoch: 1, State: Done, Result: []byte("ok"), Retention: time.Hour, Claim: &Origin{}}}
}

// ordinary is what each of them counts for.
func ordinary() int64 {
	late := lateOf(0)
	return late.Bytes()
}

// shaky is a journal in memory that fails as it is told.
type shaky struct {
	inMemory
	opened []Waiting
	put    func() error
	get    func(number uint64) error
}

func (s *shaky) Waiting() []Waiting { return s.opened }

func (s *shaky) Put(late Late) (uint64, error) {
	if s.put != nil {
		if err := s.put(); err != nil {
			return 0, err
		}
	}
	return s.inMemory.Put(late)
}

func (s *shaky) Get(number uint64) (Late, error) {
	if s.get != nil {
		if err := s.get(number); err != nil {
			return Late{}, err
		}
	}
	return s.inMemory.Get(number)
}

// queueOf returns a queue with n entries over a journal.
func queueOf(t *testing.T, j Journal, n int) *queue {
	t.Helper()
	q := newQueue(j, 64<<20)
	for i := range n {
		fill(t, q, lateOf(i))
	}
	return q
}

func fill(t *testing.T, q *queue, late Late) {
	t.Helper()
	if err := q.put(late); err != nil {
		t.Fatal(err)
	}
}

// taker is where a replay goes: it takes entries unless it is told not to.
type taker struct {
	q     *queue
	mu    sync.Mutex
	taken []string // conversations, in order
	asked int
	takes func(conversation string) error
}

func (s *taker) deliver(_ context.Context, e Waiting, late Late) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	c := late.Settlement.Key.Conversation
	if s.takes != nil {
		if err := s.takes(c); err != nil {
			return err
		}
	}
	s.taken = append(s.taken, c)
	_, err := s.q.done(context.Background(), e)
	return err
}

// refuses are the conversations that the store does not take.
func refuses(all ...string) func(string) error {
	return func(c string) error {
		if slices.Contains(all, c) {
			return errAway
		}
		return nil
	}
}

func TestAReplayHandsOutEverything(t *testing.T) {
	q := queueOf(t, &inMemory{}, 100)
	s := taker{q: q}
	if ended, err := q.replay(t.Context(), s.deliver); err != nil || ended != 100 || len(s.taken) != 100 || q.waiting() != 0 {
		t.Fatalf("%d ended, %d taken, %d wait, %v", ended, len(s.taken), q.waiting(), err)
	}
	// Oldest first, a group at a time.
	for i, c := range s.taken {
		var n int
		if _, err := fmt.Sscanf(c, "c%d", &n); err != nil || n/groupLength != i/groupLength {
			t.Errorf("%s is number %d", c, i)
		}
	}
	if len(q.newest) != 0 || q.bytes != 0 {
		t.Errorf("%d keys, %d bytes are left", len(q.newest), q.bytes)
	}
}

func TestAReplayStopsWhenTheStoreIsDown(t *testing.T) {
	q := queueOf(t, &inMemory{}, 200)
	s := taker{q: q, takes: func(string) error { return errAway }}
	if ended, err := q.replay(t.Context(), s.deliver); !errors.Is(err, errAway) || ended != 0 {
		t.Errorf("%d ended, %v", ended, err)
	}
	if s.asked != groupLength || q.waiting() != 200 {
		t.Errorf("%d asked, %d wait: one group tells enough", s.asked, q.waiting())
	}
}

// An entry that the store refuses for its own sake stands in nobody's way.
func TestAReplayGoesAroundAnEntryThatIsRefused(t *testing.T) {
	q := queueOf(t, &inMemory{}, 200)
	s := taker{q: q, takes: refuses("c0")}
	for round, want := range []int{199, 200} {
		if _, err := q.replay(t.Context(), s.deliver); !errors.Is(err, errAway) || len(s.taken) != want || q.waiting() != 1 {
			t.Errorf("%d taken, %d wait, %v", len(s.taken), q.waiting(), err)
		}
		if round == 0 {
			fill(t, q, lateOf(200))
		}
	}
}

// Nor do large ones, each a group of its own, at the head of the queue.
func TestAReplayGoesAroundLargeEntriesThatAreRefused(t *testing.T) {
	q := queueOf(t, &inMemory{}, 0)
	const large = 3
	for n := range large {
		late := lateOf(n)
		late.Settlement.Result = make([]byte, groupBytes+1<<20)
		fill(t, q, late)
	}
	for n := large; n < 100; n++ {
		fill(t, q, lateOf(n))
	}
	s := taker{q: q, takes: refuses("c0", "c1", "c2")}
	for range large + 1 {
		if _, err := q.replay(t.Context(), s.deliver); !errors.Is(err, errAway) {
			t.Errorf("got %v", err)
		}
	}
	if len(s.taken) != 100-large || q.waiting() != large {
		t.Errorf("%d taken, %d wait", len(s.taken), q.waiting())
	}
	// Those are not given up.
	s.takes = nil
	if _, err := q.replay(t.Context(), s.deliver); err != nil || q.waiting() != 0 {
		t.Errorf("%d wait, %v", q.waiting(), err)
	}
}

func TestAReplayEndsWithItsContext(t *testing.T) {
	q := queueOf(t, &inMemory{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	s := taker{q: q, takes: func(string) error { cancel(); return nil }}
	if _, err := q.replay(ctx, s.deliver); !errors.Is(err, context.Canceled) || s.asked != groupLength {
		t.Errorf("%d asked, %v", s.asked, err)
	}
}

func TestAnEntryEndsOnce(t *testing.T) {
	q := queueOf(t, &inMemory{}, 3)
	e, late, ok := q.find(context.Background(), lateOf(1).Settlement.Key)
	if !ok || late.Settlement.Key != lateOf(1).Settlement.Key {
		t.Fatalf("found %+v", late)
	}
	for _, want := range []bool{true, false} {
		if ended, err := q.done(context.Background(), e); ended != want || err != nil {
			t.Errorf("%t, %v: it ends once", ended, err)
		}
	}
	if _, _, ok := q.find(context.Background(), lateOf(1).Settlement.Key); ok || q.waiting() != 2 {
		t.Errorf("found again, %d wait", q.waiting())
	}
}

// Of two entries with one key the newer is found, and the older replayed too.
func TestTwoEntriesOfOneKey(t *testing.T) {
	q := queueOf(t, &inMemory{}, 0)
	for epoch := range int64(2) {
		late := lateOf(0)
		late.Settlement.Epoch = epoch + 1
		fill(t, q, late)
	}
	oldest := q.inOrder()[0]
	if _, late, _ := q.find(context.Background(), oldest.Key); late.Settlement.Epoch != 2 {
		t.Errorf("found %+v", late)
	}
	s := taker{q: q}
	if _, err := q.done(t.Context(), oldest); err != nil {
		t.Error(err)
	}
	if _, _, ok := q.find(context.Background(), oldest.Key); !ok {
		t.Error("the newer went with the older")
	}
	if ended, err := q.replay(t.Context(), s.deliver); ended != 1 || err != nil {
		t.Errorf("%d ended, %v", ended, err)
	}
}

// What was there when the journal was opened waits in its order.
func TestEntriesOfAnEarlierRun(t *testing.T) {
	j := &shaky{}
	for n := range 3 {
		number, err := j.inMemory.Put(lateOf(n))
		if err != nil {
			t.Fatal(err)
		}
		j.opened = append(j.opened, Waiting{number, lateOf(n).Settlement.Key, ordinary()})
	}
	q := newQueue(j, 3*ordinary())
	if err := q.put(lateOf(3)); !errors.Is(err, ErrFull) {
		t.Errorf("they do not count: %v", err)
	}
	s := taker{q: q}
	if ended, err := q.replay(t.Context(), s.deliver); ended != 3 || err != nil {
		t.Errorf("%d ended, %v", ended, err)
	}
	fill(t, q, lateOf(3))
}

// A file may have any number, if somebody has renamed it. It is of no call but its own.
func TestAnEntryWithTheFirstNumber(t *testing.T) {
	j := &shaky{opened: []Waiting{{Number: 0, Key: lateOf(0).Settlement.Key}}}
	j.late.Store(uint64(0), lateOf(0))
	q := newQueue(j, 1<<20)
	if _, late, ok := q.find(context.Background(), lateOf(1).Settlement.Key); ok {
		t.Errorf("what waits of another call is %v", late.Settlement.Key)
	}
	if _, _, ok := q.find(context.Background(), lateOf(0).Settlement.Key); !ok {
		t.Error("it does not wait")
	}
}

func TestAQueueIsBounded(t *testing.T) {
	j := &shaky{}
	q := newQueue(j, 10*ordinary())
	for next := range 100 {
		if next >= 10 {
			if err := q.put(lateOf(next)); !errors.Is(err, ErrFull) {
				t.Fatalf("entry %d: %v", next, err)
			}
			if _, err := q.done(context.Background(), q.inOrder()[next%10]); err != nil {
				t.Fatal(err)
			}
			j.put = func() error { return errAway } // what is not kept takes no place
			if err := q.put(lateOf(next)); !errors.Is(err, errAway) {
				t.Fatal(err)
			}
			j.put = nil
		}
		fill(t, q, lateOf(next))
	}
	if q.waiting() != 10 || q.bytes != q.max {
		t.Errorf("%d wait with %d bytes", q.waiting(), q.bytes)
	}
}

// A disk that hangs is given no more than so much at a time, and what it keeps in the end
// is replayed. The end waits for it.
func TestADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 3 * putsAtOnce
		var puts atomic.Int32
		goesOn := make(chan struct{})
		q := queueOf(t, &shaky{put: func() error { puts.Add(1); <-goesOn; return nil }}, 0)
		var all sync.WaitGroup
		for n := range calls {
			all.Go(func() {
				if err := q.put(lateOf(n)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := puts.Load(); n != putsAtOnce || q.waiting() != 0 || q.bytes != calls*ordinary() {
			t.Errorf("%d puts, %d wait, %d bytes", n, q.waiting(), q.bytes)
		}
		closed := make(chan error)
		go func() { closed <- q.close() }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("it did not wait")
		default:
		}
		if err := q.put(lateOf(99)); !errors.Is(err, ErrClosed) {
			t.Errorf("at the end: %v", err)
		}
		close(goesOn)
		all.Wait()
		if err := <-closed; err != nil || q.waiting() != calls || puts.Load() != calls {
			t.Errorf("%d wait, %v", q.waiting(), err)
		}
		select {
		case <-q.wake:
		default:
			t.Error("nobody is told of what was kept in the end")
		}
	})
}

// An entry that can be read no more has ended; one that cannot be read now waits.
func TestEntriesThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		waits int
	}{
		"damaged": {fmt.Errorf("%w: its checksum is wrong", ErrCorrupt), 0},
		"not now": {errAway, 1},
	} {
		j := &shaky{}
		q := queueOf(t, j, 3)
		j.get = func(number uint64) error {
			if number == 2 {
				return c.err
			}
			return nil
		}
		if _, _, ok := q.find(context.Background(), lateOf(1).Settlement.Key); ok {
			t.Errorf("%s: found", name)
		}
		s := taker{q: q}
		if _, err := q.replay(t.Context(), s.deliver); (err != nil) != (c.waits > 0) || len(s.taken) != 2 || q.waiting() != c.waits {
			t.Errorf("%s: %d taken, %d wait, %v", name, len(s.taken), q.waiting(), err)
		}
	}
}

func TestManyUseAQueue(t *testing.T) {
	q := queueOf(t, &inMemory{}, 0)
	s := taker{q: q}
	var all, replays sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 100 {
				if err := q.put(lateOf(w*100 + i)); err != nil {
					t.Error(err)
				}
				if e, _, ok := q.find(context.Background(), lateOf(w*100).Settlement.Key); ok && i%2 == 0 {
					if _, err := q.done(context.Background(), e); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	stop := make(chan struct{})
	replays.Go(func() {
		for {
			if _, err := q.replay(t.Context(), s.deliver); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	all.Wait()
	close(stop)
	replays.Wait()
	if _, err := q.replay(t.Context(), s.deliver); err != nil || q.waiting() != 0 || q.bytes != 0 || len(q.newest) != 0 {
		t.Errorf("%d wait with %d bytes, %v", q.waiting(), q.bytes, err)
	}
	if len(s.taken) < 792 {
		t.Errorf("%d taken", len(s.taken))
	}
}
