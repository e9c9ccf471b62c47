package embedded

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// mustPut puts bytes on a sheet.
func (s *Store) mustPut(t *testing.T, name string, n int, keep time.Duration) {
	t.Helper()
	s.mustDo(t, func(t *txn) {
		t.SetValue(dedupe.ValueKey{Kind: dedupe.TallyValue, Name: name}, strings.Repeat("x", n), keep)
	})
}

// copied is a store on a copy of its file, as it is now.
func (s *Store) copied(t *testing.T) (*Store, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	b, err := os.ReadFile(s.file.path)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(path, s.options)
	if err == nil {
		t.Cleanup(func() { again.Close() })
	}
	return again, err
}

// disjoint reports that each segment of the file is a part of the log or free, once.
func (f *file) disjoint() error {
	seen := map[int64]string{}
	note := func(segment int64, what string) error {
		if before, known := seen[segment]; known {
			return fmt.Errorf("segment %d is %s and %s", segment, before, what)
		}
		seen[segment] = what
		return nil
	}
	for part, segment := range f.parts {
		if err := note(segment, fmt.Sprint("part ", part)); err != nil {
			return err
		}
		if (part+1)*partSize <= f.tail || part*partSize >= f.end {
			return fmt.Errorf("part %d is not of the log from %d to %d", part, f.tail, f.end)
		}
	}
	for _, segment := range f.free {
		if err := note(segment, "free"); err != nil {
			return err
		}
	}
	if int64(len(seen)) != f.segments {
		return fmt.Errorf("of %d segments %d are known", f.segments, len(seen))
	}
	return nil
}

// A log in which nothing is live may end where a segment does.
func TestALogEndsWithItsSegment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		for i := 0; logBytes(s) < slack+3*segmentSize; i++ {
			s.mustPut(t, fmt.Sprint(i), segmentSize/2, time.Minute)
		}
		_, end := logIs(s)
		name := dedupe.ValueKey{Kind: dedupe.TallyValue, Name: "last"}
		rest := int(2*partSize-end%partSize) - frameBytes - len(valueKey(name))
		s.mustPut(t, name.Name, rest, time.Minute)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if tail, end := logIs(s); tail != end || end%partSize != 0 {
			t.Fatalf("the log is from %d to %d", tail, end)
		}
		time.Sleep(3 * time.Second)
		claim(t, s, request("new", tool.NonIdempotent))
		claim(t, reopen(t, s), request("newer", tool.NonIdempotent))
	})
}

// A conversation that has expired leaves the log a piece at a time.
func TestAnExpiredConversationIsGoneThroughInPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		transcribed(t, s, "c", [][]byte{make([]byte, mostCleaned), make([]byte, mostCleaned), make([]byte, 10)}, time.Hour)
		time.Sleep(time.Hour - time.Second)
		s.still(func() {
			s.clock = newClock(s.clock.now().Add(2 * time.Minute))
			s.index.pass(dedupe.Millis(s.clock.now()))
			if progress, err := s.reclaim(); err != nil || !progress || len(s.index.messages) != 1 {
				t.Fatalf("%v, %v, with %d conversations left", progress, err, len(s.index.messages))
			}
		})
		again, err := s.copied(t)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Store{s, again} {
			if got, err := s.ReadConversation(t.Context(), transcriptKey("c"), 0, 1); err != nil || got.Head != nil {
				t.Errorf("it is %+v, %v", got, err)
			}
			transcribed(t, s, "c", spoken(1), time.Hour)
		}
		again = reopen(t, again)
		got, err := again.ReadConversation(t.Context(), transcriptKey("c"), 0, 1<<20)
		if err != nil || len(got.Messages) != 2 {
			t.Errorf("begun anew it has %d messages, %v", len(got.Messages), err)
		}
	})
}

// A commit may write over what the one before it has freed. When it came to no end, nothing
// but what is free is free.
func TestACommitThatCameToNoEndOverWhatWasFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		s.fill(t, "filler ", 4*mostCleaned, time.Minute)
		finished(t, s, "kept", "ok")
		s.still(func() {
			s.clock = newClock(s.clock.now().Add(3 * time.Minute))
			tail, t1 := s.file.tail, s.begin()
			if err := errors.Join(t1.clean(8*segmentSize, math.MaxInt), s.commit(t1, 0)); err != nil {
				t.Fatal(err)
			}
			if s.file.tail == tail {
				t.Fatal("nothing was freed")
			}
			t2 := s.begin() // which is written, and has no head
			if t2.set(dedupe.TallyValue, []byte("y"), t2.now.Add(time.Hour), make([]byte, len(s.file.free)*partSize)); t2.failed != nil {
				t.Fatal(t2.failed)
			}
			s.writeUnfinished(t, t2)
		})
		again, err := s.copied(t)
		if err != nil {
			t.Fatal(err)
		}
		again.still(func() {
			if err := again.file.disjoint(); err != nil {
				t.Error(err)
			}
		})
		again.mustPut(t, "much", 8*segmentSize, time.Hour)
		if got := lookup(t, reopen(t, again), "kept"); got.State != dedupe.Done {
			t.Errorf("what was kept is %v", got.State)
		}
	})
}

// writeUnfinished writes a transaction to the log, without its head.
func (s *Store) writeUnfinished(t *testing.T, txn *txn) {
	t.Helper()
	if err := s.file.writeLog(txn.frames); err != nil {
		t.Fatal(err)
	}
}

// What a commit that came to no end has begun is free at once.
func TestSegmentsOfACommitThatCameToNoEndAreFree(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	finished(t, s, "before", "ok")
	s.mustPut(t, "much", 8*segmentSize, time.Hour)
	offset, _, err := s.file.offset(s.file.end - 100)
	if err != nil {
		t.Fatal(err)
	}
	torn := asWritten(t, s.file.path)
	torn[offset] ^= 1
	again := s.opened(t, torn)
	again.still(func() {
		if err := again.file.disjoint(); err != nil {
			t.Error(err)
		}
	})
}

// Of two commits that came to no end, one after the other, no mixture is a commit.
func TestTwoCommitsThatCameToNoEndAreNone(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	finished(t, s, "before", "ok")
	sector := int64(0) // the first one of the second row
	put := func(s *Store, value string) (before, after []byte) {
		t.Helper()
		s.still(func() {
			txn := s.begin()
			offset, _, err := s.file.offset(s.file.end)
			if err != nil {
				t.Fatal(err)
			}
			sector = offset/512*512 + 1024
			row := func(key string, size int64) error {
				txn.set(dedupe.TallyValue, []byte(key+value), txn.now.Add(time.Hour), make([]byte, size))
				return txn.failed
			}
			if err := errors.Join(row("a", sector-offset-frameBytes-2), row("b", 600)); err != nil {
				t.Fatal(err)
			}
			before = s.read(t)
			if err := s.commit(txn, 0); err != nil {
				t.Fatal(err)
			}
			after = asWritten(t, s.file.path)
		})
		return before, after
	}
	before, first := put(s, "1")
	torn := slices.Concat(first[:sector], before[sector:])
	_, second := put(s.opened(t, torn), "2")
	// Of the second one there is only the second row, at the place of that of the first.
	again := s.opened(t, slices.Concat(torn[:sector], second[sector:]))
	again.still(func() {
		if len(again.index.rows) != 1 {
			t.Errorf("there are %d rows, want that of before", len(again.index.rows))
		}
	})
}

func (s *Store) read(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(s.file.path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// opened is a store on a file with some content.
func (s *Store) opened(t *testing.T, content []byte) *Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, path, s.options)
}

// A process that is killed leaves what it has written to the system, which a loss of power
// takes. The next one waits for the disk before it answers anybody.
func TestWhatAKilledProcessHasWrittenIsSynced(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	finished(t, s, "before", "ok")
	again := &database{options: s.options, index: newIndex(0)}
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(path, s.read(t), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if again.file, err = openFile(path, 0); err != nil {
		t.Fatal(err)
	}
	defer again.file.Close()
	again.file.sync = func() error { return syscall.EIO }
	if err := again.load(); !errors.Is(err, syscall.EIO) {
		t.Errorf("it is opened: %v", err)
	}
}
