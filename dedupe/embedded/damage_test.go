package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/tool"
)

const specimenSize = 60

// specimen is a closed store with some of everything, and what it knows.
func specimen(t *testing.T) (path string, known map[string]dedupe.Record, output dedupe.Output) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, Options{})
	for i := range specimenSize {
		finished(t, s, fmt.Sprintf("done %d", i), strings.Repeat(fmt.Sprint(i), i))
		claim(t, s, request(fmt.Sprintf("charge %d", i), tool.NonIdempotent))
	}
	for i := range specimenSize / 2 {
		conversed(t, s, fmt.Sprint("conversation ", i), 24*time.Hour)
	}
	for i := range specimenSize / 4 {
		transcribed(t, s, fmt.Sprint("transcript ", i), spoken(i), 24*time.Hour)
	}
	end := settlement("with output", "short")
	end.Output = &dedupe.Output{Ref: "ref", Data: []byte(strings.Repeat("long ", 50_000)), TTL: 24 * time.Hour, Complete: true}
	claim(t, s, request("with output", tool.ReadOnly))
	settle(t, s, end)
	s = reopen(t, s) // the open claims are now Unknown
	known = everything(t, s)
	output = keptOutput(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, known, output
}

// openUnlessDamaged is Open, quicker for a damaged file: the check alone.
func openUnlessDamaged(path string) (*Store, error) {
	if _, _, err := verify(path); err != nil {
		return nil, err
	}
	return Open(path, Options{})
}

func everything(t *testing.T, s *Store) map[string]dedupe.Record {
	t.Helper()
	known := map[string]dedupe.Record{"with output": lookup(t, s, "with output")}
	for i := range specimenSize {
		for _, id := range []string{fmt.Sprintf("done %d", i), fmt.Sprintf("charge %d", i)} {
			known[id] = lookup(t, s, id)
		}
	}
	return known
}

// spoken are the messages of one of the specimen's conversations.
func spoken(i int) (messages [][]byte) {
	for n := range i + 1 {
		messages = append(messages, []byte(strings.Repeat(fmt.Sprint(i, n), 10*n*n)))
	}
	if i == 3 {
		messages = append(messages, bytes.Repeat([]byte("long"), pieceSize/2)) // in pieces
	}
	return messages
}

// sameSheets reports what of the specimen's conversations is not as it was.
func sameSheets(t *testing.T, s *Store) error {
	t.Helper()
	for i := range specimenSize / 2 {
		name := fmt.Sprint("conversation ", i)
		got := sheets(t, s, name)
		if got.Tally.Calls != 1 || got.Tally.Estimated != 40 || len(got.Logs[0]) != 1 || string(got.Logs[0][0]) != strings.Repeat(name, 30) {
			return fmt.Errorf("%s has %+v", name, got)
		}
	}
	for i := range specimenSize / 4 {
		name := fmt.Sprint("transcript ", i)
		got, err := s.ReadConversation(context.Background(), transcriptKey(name), 0, 1<<30)
		if err != nil || string(got.Head) != "head of "+name || !slices.EqualFunc(got.Messages, spoken(i), bytes.Equal) {
			return fmt.Errorf("%s has %d messages under %q, %w", name, len(got.Messages), got.Head, err)
		}
	}
	return nil
}

func keptOutput(t *testing.T, s *Store) dedupe.Output {
	t.Helper()
	output, err := s.Output(context.Background(), "acme", "ref")
	if err != nil {
		t.Fatal(err)
	}
	output.TTL = 0
	return output
}

// A damaged byte is either found at Open, or is where it matters to nobody: no
// record ever changes or vanishes in silence.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	path, known, output := specimen(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	const trials = 250
	for range trials {
		b := append([]byte(nil), whole...)
		at, bit := random.IntN(len(b)), byte(1)<<random.IntN(8)
		b[at] ^= bit
		if err := os.WriteFile(damaged, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openUnlessDamaged(damaged)
		if err != nil {
			found++
			if !errors.Is(err, dedupe.ErrCorrupt) && !strings.Contains(err.Error(), "format") {
				t.Errorf("byte %d, bit %x: %v", at, bit, err)
			}
			continue
		}
		if diff := cmp.Diff(known, everything(t, s)); diff != "" {
			t.Errorf("byte %d, bit %x went unnoticed: %s", at, bit, diff)
		}
		if err := sameSheets(t, s); err != nil {
			t.Errorf("byte %d, bit %x went unnoticed: %v", at, bit, err)
		}
		if got := keptOutput(t, s); !bytes.Equal(got.Data, output.Data) || !got.Complete {
			t.Errorf("byte %d, bit %x went unnoticed in the output", at, bit)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if found < trials/4 {
		t.Errorf("only %d of %d damages were found: the test misses the data", found, trials)
	}
}

// Pages that were never written, or written in part, or not where they belong.
func TestTornPagesAreFound(t *testing.T) {
	t.Parallel()
	path, known, _ := specimen(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	for name, tear := range map[string]func(b []byte, id int){
		"zeroed":      func(b []byte, id int) { clear(b[id*page : (id+1)*page]) },
		"half zeroed": func(b []byte, id int) { clear(b[id*page+page/2 : (id+1)*page]) },
		"another's":   func(b []byte, id int) { copy(b[id*page:(id+1)*page], b[(id+1)*page:]) },
		"shuffled":    func(b []byte, id int) { copy(b[id*page+16:(id+1)*page], b[(id+1)*page+16:]) },
	} {
		damaged := filepath.Join(t.TempDir(), "damaged.db")
		for id := range len(whole)/page - 1 {
			b := append([]byte(nil), whole...)
			tear(b, id)
			if string(b) == string(whole) {
				continue
			}
			if err := os.WriteFile(damaged, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := openUnlessDamaged(damaged)
			if err != nil {
				if !errors.Is(err, dedupe.ErrCorrupt) {
					t.Errorf("page %d %s: %v", id, name, err)
				}
				continue
			}
			if diff := cmp.Diff(known, everything(t, s)); diff != "" {
				t.Errorf("page %d %s went unnoticed: %s", id, name, diff)
			}
			if err := sameSheets(t, s); err != nil {
				t.Errorf("page %d %s went unnoticed: %v", id, name, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestATruncatedFileIsFound(t *testing.T) {
	t.Parallel()
	path, _, _ := specimen(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short.db")
	for _, size := range []int{1, 100, 4095, 4096, 8192, 3 * 4096, len(whole) / 3} {
		if err := os.WriteFile(short, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(short, Options{}); !errors.Is(err, dedupe.ErrCorrupt) {
			t.Errorf("cut to %d bytes: %v", size, err)
		}
		if after, _ := os.ReadFile(short); string(after) != string(whole[:size]) {
			t.Errorf("cut to %d bytes: the file was changed", size)
		}
	}
}

func TestADamagedRecordIsNotServed(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	finished(t, s, "x", "ok")
	finished(t, s, "y", "ok")
	tx, err := s.db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	place := bigEndian(s.index.find(s.index.digest(encodeKey(request("x", 0).Key))))
	b := bytes.Clone(tx.Bucket(recordsBucket).Get(place))
	b[20] ^= 1
	if err := errors.Join(tx.Bucket(recordsBucket).Put(place, b), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	again := request("x", tool.NonIdempotent)
	again.Owner = "another"
	if a, err := s.Admit(context.Background(), again); !errors.Is(err, dedupe.ErrCorrupt) {
		t.Errorf("admitted: %v, %v", a.Verdict, err)
	}
	if _, err := s.Settle(context.Background(), settlement("x", "ok")); !errors.Is(err, dedupe.ErrCorrupt) {
		t.Errorf("settled: %v", err)
	}
	if got := lookup(t, s, "y"); got.State != dedupe.Done {
		t.Errorf("its neighbour is %v", got.State)
	}
}

// An operation that fails in the middle fails alone.
func TestAPoisonedRequestFailsAlone(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	tx, err := s.db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	blocker := newOperation(dedupe.Frees, 0, func(*txn) error { return nil })
	s.committer.queue <- blocker
	for blocker.phase.Load() != taken {
		time.Sleep(time.Millisecond)
	}
	var good, bad []*operation
	errBad := errors.New("bad")
	for i := range 10 {
		op := admitting(t, request(fmt.Sprint(i), tool.NonIdempotent))
		poison := newOperation(dedupe.Frees, 0, func(txn *txn) error {
			if err := txn.put(entry{key: []byte("poison")}, dedupe.Record{State: dedupe.Claimed}, time.Hour); err != nil {
				return err
			}
			if i%2 == 0 {
				panic("bug")
			}
			return errBad
		})
		good, bad = append(good, op), append(bad, poison)
		s.committer.queue <- op
		s.committer.queue <- poison
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		<-good[i].done
		<-bad[i].done
		if got := lookup(t, s, fmt.Sprint(i)); good[i].err != nil || got.State != dedupe.Claimed {
			t.Errorf("%d: %v, %v", i, got.State, good[i].err)
		}
		if bad[i].err == nil || i%2 == 1 && !errors.Is(bad[i].err, errBad) {
			t.Errorf("the poison %d: %v", i, bad[i].err)
		}
	}
	s = reopen(t, s)
	if got := lookup(t, s, "7"); got.State != dedupe.Unknown {
		t.Errorf("7 is %v", got.State)
	}
	if _, err := s.view(func(t *txn) error {
		if e, err := t.find([]byte("poison")); err != nil || e.id != 0 {
			return errors.Join(err, errBad)
		}
		return nil
	}); err != nil {
		t.Error("a poisoned request left something behind")
	}
}

// When the disk fails nobody is told that something was stored, and nothing is
// claimed afterwards.
func TestAFailedDiskFailsTheStore(t *testing.T) {
	t.Parallel()
	s, err := Open(filepath.Join(t.TempDir(), "store.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	finished(t, s, "x", "ok")
	if err := s.file.Close(); err != nil { // every write fails from here on
		t.Fatal(err)
	}
	for _, id := range []string{"y", "z"} {
		if _, err := s.Admit(context.Background(), request(id, tool.NonIdempotent)); err == nil {
			t.Errorf("%s was admitted", id)
		}
	}
	if err := s.Ping(context.Background()); err == nil || !strings.Contains(err.Error(), "must be opened again") {
		t.Errorf("Ping: %v", err)
	}
	if err := s.Close(); err == nil {
		t.Error("Close reports nothing")
	}
}

// A disk that is full only at the last sync: by then the transaction counts,
// whether or not it lasts. A store that went on would not find its records.
func TestADiskThatIsFullAtTheLastSync(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		finished(t, s, "before", "ok")
		s.commit = func(tx *bbolt.Tx) error {
			if err := commit(tx); err != nil {
				return err
			}
			return cause
		}
		call := request("call", tool.NonIdempotent)
		if a, err := s.Admit(t.Context(), call); !errors.Is(err, cause) {
			t.Errorf("%v: answered %v, %v", cause, a.Verdict, err)
		}
		s.commit = commit
		if a, err := s.Admit(t.Context(), call); err == nil {
			t.Errorf("%v: the store goes on: %v", cause, a.Verdict)
		}
		s = reopen(t, s)
		if r := lookup(t, s, "call"); r.State != dedupe.Unknown {
			t.Errorf("%v: after a restart the call is %v", cause, r.State)
		}
		if r := lookup(t, s, "before"); r.State != dedupe.Done {
			t.Errorf("%v: after a restart what was before is %v", cause, r.State)
		}
	}
}
