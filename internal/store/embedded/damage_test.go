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

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

const specimenSize = 60

// specimen is a closed store with some of everything, and what it knows.
func specimen(t *testing.T) (path string, known map[string]dedupe.Record, output dedupe.Output) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "store.db")
	s := open(t, path, Options{})
	filled(t, s)
	s = reopen(t, s) // the open claims are now Unknown
	known = everything(t, s)
	output = keptOutput(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, known, output
}

// filled has some of everything.
func filled(t *testing.T, s *Store) (known map[string]dedupe.Record, output dedupe.Output) {
	t.Helper()
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
	return everything(t, s), keptOutput(t, s)
}

// damage changes a byte in a frame.
func (s *Store) damage(t *testing.T, p place) {
	t.Helper()
	offset, _, err := s.file.offset(p.at + int64(p.size)/2)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := s.file.ReadAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := s.file.WriteAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
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
		messages = append(messages, bytes.Repeat([]byte("long"), segmentSize/2)) // over several segments
	}
	return messages
}

// sameValues reports what of the specimen's conversations is not as it was.
func sameValues(t *testing.T, s *Store) error {
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
		s, err := Open(damaged, Options{})
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
		if err := sameValues(t, s); err != nil {
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
			s, err := Open(damaged, Options{})
			if err != nil {
				if !errors.Is(err, dedupe.ErrCorrupt) {
					t.Errorf("page %d %s: %v", id, name, err)
				}
				continue
			}
			if diff := cmp.Diff(known, everything(t, s)); diff != "" {
				t.Errorf("page %d %s went unnoticed: %s", id, name, diff)
			}
			if err := sameValues(t, s); err != nil {
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

// A record that is not as it was written is told to nobody, and nothing else is from then on:
// nobody knows what else is not.
func TestADamagedRecordIsNotServed(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(s *Store) error{
		"a claim": func(s *Store) error {
			again := request("x", tool.NonIdempotent)
			again.Owner = "another"
			_, err := s.Admit(t.Context(), again)
			return err
		},
		"a settlement": func(s *Store) error {
			_, err := s.Settle(t.Context(), settlement("x", "ok"))
			return err
		},
	} {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		finished(t, s, "x", "ok")
		finished(t, s, "y", "ok")
		s.damage(t, s.index.rows[s.index.digest(recordRow, encodeKey(request("x", 0).Key))].place)
		if err := ask(s); !errors.Is(err, dedupe.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		var failed *dedupe.FailedError
		if _, err := storetest.Lookup(t.Context(), s, request("y", 0).Key); !errors.As(err, &failed) {
			t.Errorf("%s: its neighbour is told: %v", name, err)
		}
	}
}

// An operation that fails in the middle fails alone, and leaves nothing behind.
func TestAPoisonedRequestFailsAlone(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	var good, bad, group []*operation
	errBad := errors.New("bad")
	transcribed(t, s, "c", spoken(1), time.Hour)
	for i := range 10 {
		op := admitting(t, request(fmt.Sprint(i), tool.NonIdempotent))
		poison := newOperation(own(dedupe.Frees, 0, func(txn *txn) {
			for _, id := range []string{"poison", fmt.Sprint(i)} {
				txn.SetCall(request(id, 0).Key, &dedupe.Record{State: dedupe.Done, Epoch: 1, Owner: "x"}, time.Hour, nil)
			}
			w := conversation.Write{
				Key: transcriptKey("c"), Was: []byte("head of c"), Head: []byte("poisoned"), After: 2, Messages: spoken(2), TTL: time.Hour,
			}
			if written := txn.writeConversation(conversationKey(w.Key), &w); txn.failed != nil || !written {
				t.Errorf("%v, %v", written, txn.failed)
			}
			if i%2 == 0 {
				panic("bug")
			}
			txn.Fail(errBad)
		}))
		good, bad, group = append(good, op), append(bad, poison), append(group, op, poison)
	}
	s.serve(group)
	is := func(s *Store, want dedupe.State) {
		t.Helper()
		for i := range good {
			if got := lookup(t, s, fmt.Sprint(i)); good[i].err != nil || got.State != want {
				t.Errorf("%d: %v, %v", i, got.State, good[i].err)
			}
		}
		if got := lookup(t, s, "poison"); got.State != dedupe.Absent {
			t.Error("a poisoned request left something behind")
		}
		if got, err := s.ReadConversation(t.Context(), transcriptKey("c"), 0, 1<<20); err != nil || string(got.Head) != "head of c" || len(got.Messages) != 2 {
			t.Errorf("the conversation is %q with %d messages, %v", got.Head, len(got.Messages), err)
		}
	}
	for i := range bad {
		if bad[i].err == nil || i%2 == 1 && !errors.Is(bad[i].err, errBad) {
			t.Errorf("the poison %d: %v", i, bad[i].err)
		}
	}
	is(s, dedupe.Claimed)
	is(reopen(t, s), dedupe.Unknown)
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

// A disk that is full only at the sync: whether or not the commit lasts, nobody knows.
func TestADiskThatIsFullAtTheSync(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		finished(t, s, "before", "ok")
		sync := s.file.sync
		s.file.sync = func() error { return cause }
		call := request("call", tool.NonIdempotent)
		if a, err := s.Admit(t.Context(), call); !errors.Is(err, cause) || errors.Is(err, dedupe.ErrFull) {
			t.Errorf("%v: answered %v, %v", cause, a.Verdict, err)
		}
		s.file.sync = sync
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
