package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

// fileBytes is how long the file is.
func (s *Store) fileBytes(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(s.file.path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// However many outputs there are, the file does not outgrow its bound, and calls are
// claimed and settled: older outputs give way.
func TestLargeOutputsDoNotOutgrowTheFile(t *testing.T) {
	t.Parallel()
	const bound, size = 64 << 20, 9 << 20
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxBytes: bound})
	refused := 0
	for i := range 40 {
		id := fmt.Sprint(i)
		claim(t, s, request(id, tool.NonIdempotent))
		end := settlement(id, "ok")
		end.Output = &dedupe.Output{Ref: id, Data: make([]byte, size), TTL: time.Hour + time.Duration(i)*time.Second}
		_, err := s.Settle(t.Context(), end)
		switch {
		case errors.Is(err, dedupe.ErrFull):
			refused++
			end.Output = nil
			settle(t, s, end)
		case err != nil:
			t.Fatal(err)
		default:
			if _, err := s.Output(t.Context(), "acme", id); err != nil {
				t.Errorf("output %s was just kept: %v", id, err)
			}
		}
		for n := range 20 {
			finished(t, s, fmt.Sprint(id, " beside ", n), "ok")
		}
		if got := s.fileBytes(t); got > bound {
			t.Fatalf("after %d outputs the file has %d bytes, and may have %d", i+1, got, bound)
		}
	}
	if refused > 4 {
		t.Errorf("%d outputs of 40 were not kept, though older ones give way", refused)
	}
}

// fillUp claims and settles calls until the file has no room for more.
func fillUp(t *testing.T, s *Store) (calls int) {
	t.Helper()
	for ; ; calls++ {
		id := fmt.Sprint("filler ", calls)
		if _, err := s.Admit(t.Context(), brief(id, time.Hour)); errors.Is(err, dedupe.ErrFull) {
			return calls
		} else if err != nil {
			t.Fatal(err)
		}
		end := settlement(id, "ok")
		end.Result, end.Retention = make([]byte, 3000), time.Hour
		if _, err := s.Settle(t.Context(), end); errors.Is(err, dedupe.ErrFull) {
			return calls
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// What there is no room for fails alone, the largest first: an output, then what begins,
// and last what ends.
func TestWhatDoesNotFitTakesNobodyWithIt(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxBytes: 4 << 20})
	for _, id := range []string{"large", "small"} {
		claim(t, s, request(id, tool.NonIdempotent))
	}
	for i := range 4 {
		claim(t, s, request(fmt.Sprint("settled ", i), tool.NonIdempotent))
	}
	large, small := settlement("large", "ok"), settlement("small", "ok")
	large.Output = &dedupe.Output{Ref: "o", Data: make([]byte, 5<<20), TTL: time.Hour}
	group := []*operation{settling(t, large), settling(t, small), admitting(t, request("new", tool.NonIdempotent))}
	s.serve(group)
	for i, want := range []error{dedupe.ErrFull, nil, nil} {
		if err := group[i].err; !errors.Is(err, want) {
			t.Errorf("operation %d: %v, want %v", i, err, want)
		}
	}
	if got := lookup(t, s, "large"); got.State != dedupe.Claimed {
		t.Errorf("the call whose output has no room is %v", got.State)
	}

	fillUp(t, s)
	group = nil
	for i := range 4 {
		end := settlement(fmt.Sprint("settled ", i), strings.Repeat("paid", 5000))
		group = append(group, settling(t, end))
	}
	for i := range 500 {
		group = append(group, admitting(t, request(fmt.Sprint("one more ", i), tool.NonIdempotent)))
	}
	s.serve(group)
	for i, op := range group {
		if err := op.err; i < 4 && err != nil || i >= 4 && !errors.Is(err, dedupe.ErrFull) {
			t.Errorf("operation %d: %v", i, err)
			break
		}
	}
	if _, err := storetest.Lookup(context.Background(), s, large.Key); err != nil {
		t.Error(err)
	}
}

// An output that is larger than all of them may be together fails alone, and no smaller
// one with it.
func TestAnOutputThatNeverFits(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxBytes: 3 << 20})
	var group []*operation
	for id, size := range map[string]int{"small": 400 << 10, "large": 1<<20 + 1} {
		claim(t, s, request(id, tool.NonIdempotent))
		end := settlement(id, "ok")
		end.Output = &dedupe.Output{Ref: id, Data: make([]byte, size), TTL: time.Hour}
		group = append(group, settling(t, end))
	}
	group = append(group, admitting(t, request("new", tool.NonIdempotent)))
	s.serve(group)
	if _, err := s.Output(t.Context(), "acme", "small"); err != nil {
		t.Errorf("the small one: %v", err)
	}
	if got := lookup(t, s, "large"); got.State != dedupe.Claimed {
		t.Errorf("the call of the large one is %v", got.State)
	}
}

// A bound that is less than what the file has already: it grows no more, and what has expired
// makes room in it.
func TestABoundBelowTheFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		s := open(t, path, Options{MaxBytes: 4 << 20})
		fillUp(t, s)
		size := s.fileBytes(t)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, path, Options{MaxBytes: 1 << 20})
		if _, err := s.Admit(t.Context(), request("new", tool.NonIdempotent)); !errors.Is(err, dedupe.ErrFull) {
			t.Errorf("while it is full: %v", err)
		}
		time.Sleep(time.Hour + 2*time.Minute)
		claim(t, s, request("newer", tool.NonIdempotent))
		if got := s.fileBytes(t); got != size {
			t.Errorf("it has grown from %d to %d bytes", size, got)
		}
	})
}

// A record that is larger than the reserve is in nobody's way, also where the log begins.
func TestALargeRecordIsMovedInAFullFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxBytes: 16 << 20})
		finished(t, s, "large", strings.Repeat("x", 4<<20)) // for a day
		for round := range 3 {
			fillUp(t, s)
			time.Sleep(time.Hour + 2*time.Minute)
			if _, err := s.Admit(t.Context(), request(fmt.Sprint("round ", round), tool.NonIdempotent)); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			s = reopen(t, s)
		}
		if got := lookup(t, s, "large"); len(got.Result) != 4<<20 {
			t.Errorf("the large one has %d bytes", len(got.Result))
		}
	})
}

// What needs much room, of which there is some here and some there, is applied a few times and not
// after each piece of the log that was gone through.
func TestALargeOperationInAFullFileIsAppliedAFewTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxBytes: 96 << 20})
		for i, full := 0, false; !full; i++ {
			keep := 24 * time.Hour
			if i%2 == 0 {
				keep = time.Minute
			}
			id := fmt.Sprint(i)
			end := settlement(id, strings.Repeat("x", 256<<10))
			end.Retention = keep
			_, err := s.Admit(t.Context(), brief(id, keep))
			if err == nil {
				_, err = s.Settle(t.Context(), end)
			}
			if full = errors.Is(err, dedupe.ErrFull); err != nil && !full {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		applied := 0
		err := s.do(t.Context(), own(dedupe.Keeps, 16<<20, func(x *txn) {
			applied++
			x.Keep("acme", &dedupe.Output{Ref: "out_1", Data: make([]byte, 16<<20), TTL: time.Hour})
		}))
		if err != nil || applied > 12 {
			t.Errorf("applied %d times: %v", applied, err)
		}
	})
}

// A store that is full of calls that are at work opens, and nobody makes them twice.
func TestAFullStoreOfOpenCallsOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxBytes: 2 << 20})
		n := 0
		for ; ; n++ {
			if _, err := s.Admit(t.Context(), request(fmt.Sprint(n), tool.NonIdempotent)); errors.Is(err, dedupe.ErrFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			s = reopen(t, s)
			for i := range n {
				again := request(fmt.Sprint(i), tool.NonIdempotent)
				again.Owner = "another"
				if a, err := s.Admit(t.Context(), again); a.Verdict == dedupe.Won || err != nil && !errors.Is(err, dedupe.ErrFull) {
					t.Fatalf("call %d of %d: %v, %v", i, n, a.Verdict, err)
				}
			}
			time.Sleep(2 * time.Minute)
			if got := lookup(t, s, "0"); got.State != dedupe.Unknown {
				t.Errorf("afterwards it is %v", got.State)
			}
		}
	})
}

// Whoever finds the store full waits for a part of the log to be gone through, not for all of
// it. The next one goes on from there.
func TestNobodyWaitsForAllOfTheLog(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	for i := range 44 {
		s.mustPut(t, fmt.Sprint(min(i, 28)), 1<<20, time.Hour) // what is dead comes last
	}
	op := func() *dedupe.Step {
		return own(dedupe.Begins, 1, func(t *txn) {
			t.SetValue(dedupe.ValueKey{Kind: dedupe.TallyValue, Name: "new"}, strings.Repeat("x", 2<<20), time.Hour)
		})
	}
	s.still(func() { s.file.most = s.file.segments })
	var err error
	for tries := range 5 {
		before, end := logIs(s)
		if err = s.do(t.Context(), op()); err == nil {
			if tries == 0 {
				t.Errorf("%d bytes of the log were gone through at once", end-before)
			}
			break
		}
		if after, _ := logIs(s); !errors.Is(err, dedupe.ErrFull) || after-before < 16*mostCleaned || after-before > 18*mostCleaned {
			t.Errorf("from %d to %d: %v", before, after, err)
		}
	}
	if err != nil {
		t.Errorf("in the end: %v", err)
	}
}

// On a disk that is nearly full the file grows by what there is.
func TestTheFileGrowsByWhatTheDiskHas(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	finished(t, s, "x", "ok")
	s.still(func() {
		has, room := s.file.segments, 5*segmentSize/2
		s.file.write = func(b []byte, at int64) (int, error) {
			n, err := s.file.WriteAt(b[:min(len(b), room)], at)
			if room -= n; n < len(b) {
				err = syscall.ENOSPC
			}
			return n, err
		}
		if err := s.file.grow(4); err != nil || s.file.segments != has+2 || s.fileBytes(t) != s.file.size() {
			t.Errorf("it has grown from %d to %d segments, %d bytes: %v", has, s.file.segments, s.fileBytes(t), err)
		}
		if err := s.file.grow(1); !errors.Is(err, dedupe.ErrFull) || s.fileBytes(t) != s.file.size() {
			t.Errorf("beyond that: %v", err)
		}
	})
}

// A file system that writes nothing in place is full while the file is not; the store says so in
// Ping, and once in the log, and when it has room again.
func TestAFileSystemThatWritesNothingInPlaceIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		finished(t, s, "before", "ok")
		s.still(func() {
			s.file.write = func([]byte, int64) (int, error) { return 0, syscall.ENOSPC }
		})
		if _, err := s.Admit(t.Context(), request("full", tool.NonIdempotent)); !errors.Is(err, dedupe.ErrFull) {
			t.Errorf("a claim: %v", err)
		}
		time.Sleep(5 * tidyEvery)
		if err := s.Ping(t.Context()); !errors.Is(err, dedupe.ErrFull) || !strings.Contains(err.Error(), s.file.path) {
			t.Errorf("Ping of a full store: %v", err)
		}
		s.still(func() { s.file.write = s.file.WriteAt })
		time.Sleep(2 * tidyEvery)
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("Ping with room again: %v", err)
		}
		claim(t, s, request("full", tool.NonIdempotent))
		for _, line := range []string{"the store is full: calls", "the store has room again"} {
			if n := strings.Count(log.String(), line); n != 1 {
				t.Errorf("the log has %d lines with %q:\n%s", n, line, &log)
			}
		}
	})
}

// A store in memory, which nobody tidies, is found full, and with room again, by who asks.
func TestAFullStoreInMemorySaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := InMemory(Options{MaxBytes: 1 << 20})
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("with room: %v", err)
		}
		fillUp(t, s)
		if err := s.Ping(t.Context()); !errors.Is(err, dedupe.ErrFull) {
			t.Errorf("full: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
}

// One call that is too large for what is left does not make the store full for others.
func TestACallThatIsTooLargeIsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxBytes: 4 << 20})
		claim(t, s, request("large", tool.NonIdempotent))
		end := settlement("large", strings.Repeat("x", 5<<20))
		if _, err := s.Settle(t.Context(), end); !errors.Is(err, dedupe.ErrFull) {
			t.Fatalf("it fits: %v", err)
		}
		time.Sleep(2 * tidyEvery)
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("Ping: %v", err)
		}
	})
}
