package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

var errDown = errors.New("connection refused")

// store is where a replay goes: it takes entries unless it is told not to.
type store struct {
	mu    sync.Mutex
	taken []string // conversations, in order
	calls int
	takes func(conversation string) error
}

func (s *store) settle(_ context.Context, late dedupe.Late) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.takes != nil {
		if err := s.takes(late.Settlement.Key.Conversation); err != nil {
			return err
		}
	}
	s.taken = append(s.taken, late.Settlement.Key.Conversation)
	return nil
}

func awaitCut(t testing.TB, j opened, d *memDisk) {
	t.Helper()
	for {
		j.mu.Lock()
		end := j.end
		j.mu.Unlock()
		if end == int64(headerSize) {
			break
		}
	}
	if got := len(d.content(path)); got != headerSize {
		t.Errorf("the file has %d bytes, want %d", got, headerSize)
	}
}

func TestReplayHandsOutEverythingAndCutsTheFile(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	j.fill(t, 0, 100)
	var s store
	if err := j.Replay(t.Context(), s.settle); err != nil {
		t.Fatal(err)
	}
	if len(s.taken) != 100 || j.Waiting() != 0 {
		t.Fatalf("%d taken, %d waiting", len(s.taken), j.Waiting())
	}
	// Oldest first, a group at a time.
	for i, c := range s.taken {
		if n := slices.IndexFunc(upTo(100), func(n int) bool { return fmt.Sprint("c", n) == c }); n/groupLength != i/groupLength {
			t.Errorf("%s is number %d", c, i)
		}
	}
	awaitCut(t, j, d)
	j.fill(t, 100, 101)
	closeNow(t, j.Journal)
	reopen(t, d, 0).holds(t, 100)
}

func TestReplayStopsWhenTheStoreIsDown(t *testing.T) {
	j := reopen(t, newDisk(), 0)
	j.fill(t, 0, 200)
	s := store{takes: func(string) error { return errDown }}
	if err := j.Replay(t.Context(), s.settle); !errors.Is(err, errDown) {
		t.Errorf("got %v", err)
	}
	if s.calls != groupLength || j.Waiting() != 200 {
		t.Errorf("%d asked, %d waiting: one group tells enough", s.calls, j.Waiting())
	}
}

// An entry that the store refuses for its own sake stands in nobody's way.
func TestReplayGoesAroundAnEntryThatIsRefused(t *testing.T) {
	j := reopen(t, newDisk(), 0)
	j.fill(t, 0, 200)
	s := store{takes: func(c string) error {
		if c == "c0" {
			return errDown
		}
		return nil
	}}
	if err := j.Replay(t.Context(), s.settle); !errors.Is(err, errDown) {
		t.Errorf("got %v", err)
	}
	j.holds(t, 0)
	j.fill(t, 200, 210)
	if err := j.Replay(t.Context(), s.settle); !errors.Is(err, errDown) || len(s.taken) != 209 {
		t.Errorf("%d taken, %v", len(s.taken), err)
	}
	j.holds(t, 0)
}

// Nor do large ones, each a group of its own, at the head of the journal.
func TestReplayGoesAroundLargeEntriesThatAreRefused(t *testing.T) {
	j := reopen(t, newDisk(), 0)
	const large = 3
	for n := range large {
		late := entry(n)
		late.Settlement.Result = make([]byte, groupBytes+1<<20)
		if err := j.Append(t.Context(), late); err != nil {
			t.Fatal(err)
		}
	}
	j.fill(t, large, 100)
	s := store{takes: func(c string) error {
		if c == "c0" || c == "c1" || c == "c2" {
			return errDown
		}
		return nil
	}}
	for range large + 1 {
		if err := j.Replay(t.Context(), s.settle); !errors.Is(err, errDown) {
			t.Errorf("got %v", err)
		}
	}
	if len(s.taken) != 100-large || j.Waiting() != large {
		t.Errorf("%d taken, %d wait", len(s.taken), j.Waiting())
	}
	// Those are not given up.
	s.takes = nil
	for range 2 {
		if err := j.Replay(t.Context(), s.settle); err != nil {
			t.Error(err)
		}
	}
	if j.Waiting() != 0 {
		t.Errorf("%d wait", j.Waiting())
	}
}

func TestReplayEndsWithItsContext(t *testing.T) {
	j := reopen(t, newDisk(), 0)
	j.fill(t, 0, 100)
	ctx, cancel := context.WithCancel(t.Context())
	s := store{takes: func(string) error { cancel(); return nil }}
	if err := j.Replay(ctx, s.settle); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if s.calls != groupLength {
		t.Errorf("%d asked", s.calls)
	}
}

func TestDoneEndsAnEntryOnce(t *testing.T) {
	j := reopen(t, newDisk(), 0)
	j.fill(t, 0, 3)
	late, _ := j.Find(entry(1).Settlement.Key)
	if !j.Done(late.Seq) || j.Done(late.Seq) || j.Done(99) {
		t.Error("an entry ends once")
	}
	j.holds(t, 0, 2)
}

// Of two entries with one key the newer is found, and the older replayed too.
func TestTwoEntriesOfOneKey(t *testing.T) {
	j := reopen(t, newDisk(), 0)
	first, second := entry(0), entry(0)
	first.Settlement.State = dedupe.NotRun
	second.Settlement.Epoch = 2
	for _, late := range []dedupe.Late{first, second} {
		if err := j.Append(t.Context(), late); err != nil {
			t.Fatal(err)
		}
	}
	late, ok := j.Find(first.Settlement.Key)
	if !ok || late.Settlement.Epoch != 2 {
		t.Errorf("found %+v", late)
	}
	j.Done(late.Seq - 1)
	if _, ok := j.Find(first.Settlement.Key); !ok {
		t.Error("the newer went with the older")
	}
}

func TestTheFileIsBounded(t *testing.T) {
	const maxBytes = 20_000
	d := newDisk()
	j := reopen(t, d, maxBytes)
	var full error
	n := 0
	for ; full == nil && n < maxBytes; n++ {
		full = j.Append(t.Context(), entry(n))
	}
	if !errors.Is(full, dedupe.ErrFull) {
		t.Fatalf("got %v", full)
	}
	if size := len(d.content(path)); size > maxBytes || size < maxBytes*9/10 {
		t.Errorf("full at %d bytes of %d", size, maxBytes)
	}
	j.holds(t, upTo(n-1)...)
	// The store takes some at a time, never all: the file is written anew, and
	// never grows beyond its bound.
	oldest, next := 0, n
	for range 500 {
		for range 5 {
			late, ok := j.Find(entry(oldest).Settlement.Key)
			if !ok || !j.Done(late.Seq) {
				t.Fatalf("entry %d is not there", oldest)
			}
			oldest++
			if oldest == n-1 {
				oldest = n
			}
		}
		for range 5 {
			if err := j.Append(t.Context(), entry(next)); err == nil {
				next++
			} else if !errors.Is(err, dedupe.ErrFull) {
				t.Fatal(err)
			}
		}
		if size := len(d.content(path)); size > maxBytes {
			t.Fatalf("%d bytes", size)
		}
	}
	if next < n+2250 {
		t.Errorf("only %d of 2500 appends were taken: space is not used again", next-n)
	}
	closeNow(t, j.Journal)
	again := reopen(t, d, maxBytes)
	for ; oldest < next; oldest++ {
		if _, ok := again.Find(entry(oldest).Settlement.Key); !ok {
			t.Fatalf("entry %d is lost", oldest)
		}
	}
}

func TestAFullDisk(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	j.fill(t, 0, 3)
	d.mu.Lock()
	d.space = 50
	d.mu.Unlock()
	for range 3 {
		if err := j.Append(t.Context(), entry(3)); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("got %v", err)
		}
	}
	d.mu.Lock()
	d.space = -1
	d.mu.Unlock()
	j.fill(t, 3, 5)
	j.holds(t, upTo(5)...)
	closeNow(t, j.Journal)
	again := reopen(t, d, 0)
	again.holds(t, upTo(5)...)
	if again.Damaged() != 0 {
		t.Errorf("the full disk left damage:\n%s", again.log)
	}
}

func TestADiskThatFails(t *testing.T) {
	for _, operation := range []string{"write", "sync"} {
		d := newDisk()
		j := reopen(t, d, 0)
		j.fill(t, 0, 2)
		d.mu.Lock()
		d.fail = failOn(operation, 1)
		d.mu.Unlock()
		if err := j.Append(t.Context(), entry(99)); err == nil {
			t.Fatalf("%s: no error", operation)
		}
		j.fill(t, 2, 4)
		j.holds(t, upTo(4)...)
		closeNow(t, j.Journal)
		d.losePower(rand.New(rand.NewPCG(1, 1)))
		reopen(t, d, 0).holds(t, upTo(4)...)
	}
}

// A file that cannot be written anew goes on as it is.
func TestACompactionThatFails(t *testing.T) {
	for _, operation := range []string{"open", "write", "sync", "rename", "syncdir"} {
		d := newDisk()
		j := reopen(t, d, 3000)
		n := 0
		for ; j.Append(t.Context(), entry(n)) == nil; n++ {
			continue
		}
		for i := range n / 2 {
			late, _ := j.Find(entry(i).Settlement.Key)
			j.Done(late.Seq)
		}
		d.mu.Lock()
		d.fail = failOn(operation, 1)
		d.mu.Unlock()
		if err := j.Append(t.Context(), entry(90)); err == nil || errors.Is(err, dedupe.ErrFull) {
			t.Fatalf("%s: %v", operation, err)
		}
		if err := j.Append(t.Context(), entry(91)); err != nil {
			t.Fatalf("%s, once it works again: %v", operation, err)
		}
		want := slices.Concat(upTo(n)[n/2:], []int{91})
		j.holds(t, want...)
		d.losePower(rand.New(rand.NewPCG(1, 2)))
		again := reopen(t, d, 3000)
		for _, i := range want {
			if _, ok := again.Find(entry(i).Settlement.Key); !ok {
				t.Errorf("%s: entry %d is lost", operation, i)
			}
		}
	}
}

// A file that is cut and then cannot be synced is shorter all the same: what
// comes next follows its header.
func TestACutThatIsNotSynced(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	j.fill(t, 0, 3)
	failed := make(chan struct{})
	d.mu.Lock()
	d.fail = func(operation, _ string) error {
		if operation != "sync" {
			return nil
		}
		d.fail = nil // once; the disk's lock is held
		close(failed)
		return errors.New("the disk fails")
	}
	d.mu.Unlock()
	for n := range 3 {
		late, _ := j.Find(entry(n).Settlement.Key)
		j.Done(late.Seq)
	}
	<-failed
	j.fill(t, 3, 5)
	closeNow(t, j.Journal)
	again := reopen(t, d, 0)
	again.holds(t, 3, 4)
	if again.Damaged() != 0 {
		t.Errorf("the cut left damage:\n%s", again.log)
	}
}

// The process ends between the exchange of the file and the sync of its
// directory; what the next one acknowledges must not go with the power.
func TestAnExchangeThatWasNotSynced(t *testing.T) {
	for seed := range uint64(10) {
		d := newDisk()
		j := reopen(t, d, 0)
		j.fill(t, 0, 4)
		late, _ := j.Find(entry(0).Settlement.Key)
		j.Done(late.Seq)
		if err := j.compact(); err != nil {
			t.Fatal(err)
		}
		d.kill()
		next := reopen(t, d, 0)
		next.fill(t, 4, 6)
		d.losePower(rand.New(rand.NewPCG(seed, 0)))
		reopen(t, d, 0).holds(t, 1, 2, 3, 4, 5)
	}
}

// Whoever looks for an entry does not wait for a disk that hangs while the file
// is written anew.
func TestALookWhileTheDiskHangs(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	j.fill(t, 0, 4)
	begun, hang := make(chan struct{}), make(chan struct{})
	d.syncing = sync.OnceFunc(func() { close(begun); <-hang })
	var compaction sync.WaitGroup
	compaction.Go(func() {
		if err := j.compact(); err != nil {
			t.Error(err)
		}
	})
	<-begun
	found := make(chan bool, 1)
	go func() { // ends with hang at the latest
		_, ok := j.Find(entry(2).Settlement.Key)
		found <- ok
	}()
	select {
	case ok := <-found:
		if !ok {
			t.Error("not found")
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for the disk")
	}
	close(hang)
	compaction.Wait()
	j.holds(t, 0, 1, 2, 3)
}

// The promise as a whole: whatever the disk does to a journal, at whatever
// moment the power goes, an entry whose Append returned nil and that is not
// done is there at the next start.
func TestNothingAcknowledgedIsEverLost(t *testing.T) {
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 0))
		d := newDisk()
		must, may := map[int]bool{}, map[int]bool{} // acknowledged; tried, or done since
		for next, life := 0, 0; life < 5; life++ {
			j := reopen(t, d, 6000)
			for n := range must {
				if _, ok := j.Find(entry(n).Settlement.Key); !ok {
					t.Fatalf("seed %d, life %d: entry %d is lost\n%s", seed, life, n, j.log)
				}
			}
			for _, late := range j.entries(t) {
				var n int
				if _, err := fmt.Sscanf(late.Settlement.Key.Conversation, "c%d", &n); err != nil || !must[n] && !may[n] {
					t.Fatalf("seed %d: %v was never there", seed, late.Settlement.Key)
				}
			}
			for range random.IntN(60) {
				d.mu.Lock()
				d.fail = nil
				if random.IntN(8) == 0 {
					d.fail = failOn([]string{"open", "write", "sync", "truncate", "rename", "syncdir"}[random.IntN(6)], 1+random.IntN(2))
				}
				d.mu.Unlock()
				if random.IntN(3) > 0 {
					may[next] = true
					if j.Append(t.Context(), entry(next)) == nil {
						must[next] = true
					}
					next++
					continue
				}
				for n := range must {
					if late, ok := j.Find(entry(n).Settlement.Key); ok && j.Done(late.Seq) {
						delete(must, n)
					}
					break
				}
			}
			d.mu.Lock()
			d.fail = nil
			d.mu.Unlock()
			closeNow(t, j.Journal) // only so that nothing writes any more
			d.losePower(random)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 200_000)
	var s store
	var appended atomic.Int64
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 100 {
				if err := j.Append(t.Context(), entry(w*100+i)); err != nil {
					t.Error(err)
				}
				appended.Add(1)
				j.Find(entry(w * 100).Settlement.Key)
			}
		})
	}
	stop := make(chan struct{})
	var replays sync.WaitGroup
	replays.Go(func() {
		for {
			if err := j.Replay(t.Context(), s.settle); err != nil {
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
	if err := j.Replay(t.Context(), s.settle); err != nil {
		t.Error(err)
	}
	if len(s.taken) != 800 || j.Waiting() != 0 {
		t.Errorf("%d taken, %d waiting", len(s.taken), j.Waiting())
	}
	awaitCut(t, j, d)
}

// Where a claim counts is told to a store that has forgotten the call.
func TestTheCounterWaitsToo(t *testing.T) {
	d := newDisk()
	j := reopen(t, d, 0)
	late := entry(1)
	late.Claim.Counter = "prompt"
	if err := j.Append(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	closeNow(t, j.Journal)
	got, ok := reopen(t, d, 0).Find(late.Settlement.Key)
	if !ok || got.Claim.Counter != late.Claim.Counter {
		t.Errorf("found %+v", got.Claim)
	}
}
