package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// A loss of power leaves any of the sectors that a commit has written, and not the others. The
// next start finds all of the commit or nothing of it, what was before is as it was, and what
// comes after it lasts.
func TestALossOfPowerLeavesAWholeCommitOrNone(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 10, "over segments": 3 * segmentSize} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, uint64(size)))
			found := map[dedupe.State]int{}
			for round := range 10 {
				before, after := aCommit(t, round, size)
				for range 4 {
					found[crashed(t, random, before, after, size)]++
				}
			}
			if found[dedupe.Absent] == 0 || found[dedupe.Done] == 0 {
				t.Errorf("found are %v: the test misses the commit", found)
			}
		})
	}
}

func (s *Store) mustDo(t *testing.T, apply func(t *txn)) {
	t.Helper()
	if err := s.do(t.Context(), own(dedupe.Frees, 1, apply)); err != nil {
		t.Fatal(err)
	}
}

// aCommit is a file before and after a commit of several rows, at some distance from the
// beginning of the log, so that it moves what is live there.
func aCommit(t *testing.T, round, size int) (before, after []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, Options{})
	finished(t, s, "early", "ok")
	for range round * 3 {
		s.mustDo(t, func(t *txn) {
			t.SetValue(dedupe.ValueKey{Kind: dedupe.TallyValue, Name: "filler"}, strings.Repeat("x", 20_000), time.Hour)
		})
	}
	claim(t, s, about("last"))
	var err error
	if before, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	group := []*operation{settling(t, settlement("last", strings.Repeat("y", size)))}
	for i := range 5 {
		group = append(group, admitting(t, about(fmt.Sprint("new ", i))))
	}
	s.serve(group)
	return before, asWritten(t, path)
}

// asWritten is a file as it was before the disk had answered the last commit.
func asWritten(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "written.db")
	if err := os.WriteFile(copied, file, 0o600); err != nil {
		t.Fatal(err)
	}
	unanswered(t, copied)
	if file, err = os.ReadFile(copied); err != nil {
		t.Fatal(err)
	}
	return file
}

// crashed opens a mixture of both, and says what has become of the commit. What comes after it
// meets a loss of power too.
func crashed(t *testing.T, random *rand.Rand, before, after []byte, size int) dedupe.State {
	t.Helper()
	s := mixed(t, random, before, after)
	last := lookup(t, s, "last")
	want := dedupe.Unknown // of what was claimed
	state := dedupe.Absent
	if last.State == dedupe.Done {
		state = dedupe.Done
		if len(last.Result) != size {
			t.Errorf("its result has %d bytes", len(last.Result))
		}
	} else if want = dedupe.Absent; last.State != dedupe.Unknown {
		t.Errorf("the last one is %v", last.State)
	}
	for i := range 5 {
		if got := lookup(t, s, fmt.Sprint("new ", i)); got.State != want {
			t.Errorf("of the commit there is %v, and new %d is %v", state, i, got.State)
		}
	}
	found := []string{"new 4", "new 3", "new 2", "new 1", "new 0", "last"}
	if state == dedupe.Absent {
		found = found[5:]
	}
	if got := findable(t, s); !slices.Equal(got, found) {
		t.Errorf("of the commit there is %v, and found are %q", state, got)
	}
	var known []string
	for round := range 4 {
		id := fmt.Sprint("later ", round)
		finished(t, s, id, strings.Repeat("z", size))
		known = append(known, id, "early")
		before, err := os.ReadFile(s.file.path)
		if err != nil {
			t.Fatal(err)
		}
		claim(t, s, request(id+" too", tool.NonIdempotent))
		after := asWritten(t, s.file.path)
		s.mustClose(t)
		s = mixed(t, random, before, after)
		for _, id := range known {
			if got := lookup(t, s, id); got.State != dedupe.Done {
				t.Errorf("round %d: %s is %v", round, id, got.State)
			}
		}
	}
	s.mustClose(t)
	return state
}

// mixed opens a file of which some sectors are as they were before, and some as after; and
// once more, after a loss of power while it was opened.
func mixed(t *testing.T, random *rand.Rand, before, after []byte) (s *Store) {
	t.Helper()
	const sector = 512
	for range 2 {
		mixed, odds := bytes.Clone(after), 1<<random.IntN(14) // that a sector is not there
		for at := 0; at < len(before); at += sector {
			if !bytes.Equal(before[at:at+sector], after[at:at+sector]) && random.IntN(odds) == 0 {
				copy(mixed[at:at+sector], before[at:])
			}
		}
		if random.IntN(4) == 0 { // the file is as long as it was
			mixed = mixed[:len(before)]
		}
		path := filepath.Join(t.TempDir(), "mixed.db")
		if err := os.WriteFile(path, mixed, 0o600); err != nil {
			t.Fatal(err)
		}
		if s != nil {
			s.mustClose(t)
		}
		s = open(t, path, Options{})
		before, after = mixed, asWritten(t, path)
	}
	return s
}

// flip changes a bit of a file.
func flip(path string, offset int64) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file[offset] ^= 1
	return os.WriteFile(path, file, 0o600)
}

// unanswered makes a file what it was before the disk had answered the last commit.
func unanswered(t *testing.T, path string) {
	t.Helper()
	f, err := openFile(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	other, err := f.readHeads()
	if err == nil && f.durable == f.end {
		before := f.head
		before.durable = other.end
		if before.sum, err = f.checksum(other.end); err == nil {
			err = f.writeHead(f.slot, before)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) mustClose(t *testing.T) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Damage of the last commit of a process that was killed is found as soon as somebody was told
// of it; before the disk had answered, it is as if the commit had come to no end.
func TestDamageOfTheLastCommit(t *testing.T) {
	t.Parallel()
	for told, want := range map[bool]error{false: nil, true: dedupe.ErrCorrupt} {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		finished(t, s, "before", "ok")
		claim(t, s, request("last", tool.NonIdempotent))
		path := filepath.Join(t.TempDir(), "damaged.db")
		file, err := os.ReadFile(s.file.path)
		if err == nil {
			err = os.WriteFile(path, file, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !told {
			unanswered(t, path)
		}
		offset, _, err := s.file.offset(s.file.end - 1)
		if err == nil {
			err = flip(path, offset)
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := Open(path, Options{})
		if !errors.Is(err, want) {
			t.Errorf("told %v: %v", told, err)
		}
		if err == nil {
			if got := lookup(t, again, "before"); got.State != dedupe.Done {
				t.Errorf("what was before is %v", got.State)
			}
			again.mustClose(t)
		}
	}
}

// That a commit is on the disk is said when the disk has answered, and not before.
func TestACommitIsConfirmedByTheDisk(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	finished(t, s, "before", "ok")
	said := func() bool {
		b := make([]byte, headBytes)
		if _, err := s.file.ReadAt(b, int64(s.file.slot)*pageSize); err != nil {
			t.Fatal(err)
		}
		h, err := decodeHead(b, s.file.slot)
		if err != nil {
			t.Fatal(err)
		}
		return h.durable == h.end
	}
	s.still(func() {
		sync := s.file.sync
		s.file.sync = func() error {
			if said() {
				t.Error("it is said before the disk has answered")
			}
			return sync()
		}
		if err := s.transact([]*operation{admitting(t, request("last", tool.NonIdempotent))}); err != nil {
			t.Fatal(err)
		}
		s.file.sync = sync
		if !said() {
			t.Error("it is not said when the disk has answered")
		}
	})
}
