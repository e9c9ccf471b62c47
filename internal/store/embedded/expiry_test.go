package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
)

// still is the store while nobody writes.
func (s *Store) still(look func()) {
	s.writing.Lock()
	defer s.writing.Unlock()
	look()
}

// logIs is where the log is.
func logIs(s *Store) (tail, end int64) {
	s.still(func() { tail, end = s.file.tail, s.file.end })
	return tail, end
}

func logBytes(s *Store) int64 {
	tail, end := logIs(s)
	return end - tail
}

// fill makes calls that are remembered for a while, until they have added so much to the log.
func (s *Store) fill(t *testing.T, name string, bytes int64, retention time.Duration) {
	t.Helper()
	_, from := logIs(s)
	for i, end := 0, from; end-from < bytes; i++ {
		id := fmt.Sprint(name, i)
		claim(t, s, brief(id, retention))
		if i%3 != 0 { // some stay claimed
			ends := settlement(id, strings.Repeat("ok", 2000))
			ends.Retention = retention
			settle(t, s, ends)
		}
		_, end = logIs(s)
	}
}

// keptOutputs are how many outputs are kept, and their bytes without what they need beside.
func keptOutputs(s *Store) (outputs int, bytes int64) {
	s.still(func() {
		for _, o := range slices.Concat(s.index.outputs.chunks...) {
			f, err := s.file.readFrame(o.place)
			if err != nil {
				panic(err)
			}
			bytes += int64(len(f.value)) - 1
			outputs++
		}
	})
	return outputs, bytes
}

func brief(id string, retention time.Duration) dedupe.Request {
	req := request(id, tool.NonIdempotent)
	req.Retention = retention
	return req
}

// What has expired makes room for what comes: file and index do not grow with time.
func TestExpiredRecordsLeaveTheFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		finished(t, s, "longer", "ok") // a day
		var size int64
		for round := range 6 {
			s.fill(t, fmt.Sprint(round, " "), 16*segmentSize, time.Hour)
			time.Sleep(time.Hour + 2*time.Minute)
			synctest.Wait()
			if got := logBytes(s); got > slack+3*segmentSize {
				t.Errorf("round %d: the log has %d bytes, of which hardly any is live", round, got)
			}
			s.still(func() {
				if got := len(s.index.rows); got > 200 {
					t.Errorf("round %d: %d rows are in the index", round, got)
				}
			})
			switch got := s.fileBytes(t); {
			case round == 1:
				size = got
			case round > 1 && got > size:
				t.Errorf("round %d: the file has grown from %d to %d bytes", round, size, got)
			}
		}
		s = reopen(t, s)
		if got := lookup(t, s, "longer"); got.State != dedupe.Done {
			t.Errorf("longer is %v", got.State)
		}
		if got := lookup(t, s, "0 1"); got.State != dedupe.Absent {
			t.Errorf("what has expired is %v", got.State)
		}
	})
}

// All that is live outlasts the log being gone through: every kind of row, again and again.
func TestWhatIsLiveIsMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		known, output := filled(t, s)
		s = reopen(t, s) // which decides the open claims
		for id := range known {
			known[id] = lookup(t, s, id)
		}
		begins, _ := logIs(s)
		for round := range 3 {
			for tail, began := logIs(s); tail < began; tail, _ = logIs(s) {
				s.fill(t, fmt.Sprint("filler ", round, " "), segmentSize, time.Minute)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
			}
			if tail, _ := logIs(s); tail <= begins {
				t.Fatal("nothing was moved")
			}
			same := func(s *Store) {
				t.Helper()
				if diff := cmp.Diff(known, everything(t, s)); diff != "" {
					t.Errorf("round %d: %s", round, diff)
				}
				if err := sameValues(t, s); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
				if got := keptOutput(t, s); !bytes.Equal(got.Data, output.Data) {
					t.Errorf("round %d: the output is another", round)
				}
				page, err := s.ListOpen(t.Context(), "")
				unknown := map[string]bool{}
				for _, call := range page.Calls {
					unknown[call.Key.ID] = true
				}
				if err != nil || len(unknown) != specimenSize || len(page.Calls) != specimenSize {
					t.Errorf("round %d: %d calls are listed, %v", round, len(page.Calls), err)
				}
			}
			same(s)
			s = reopen(t, s)
			same(s)
		}
	})
}

// A claim that was forgotten, and whose owner says that it runs, is unknown from then on.
func TestAForgottenClaimIsRestored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		s := open(t, path, Options{})
		req := brief("x", time.Minute)
		claim(t, s, req)
		time.Sleep(time.Minute + time.Second) // forgotten, and still in the log
		record, restored, err := s.Renew(t.Context(), dedupe.Renewal{
			Key: req.Key, Lease: req.Lease, Retention: time.Hour, Claim: dedupe.Origin{Record: dedupe.Record{
				State: dedupe.Claimed, Epoch: 1, Owner: req.Owner, Tool: req.Tool, Effect: req.Effect, Fingerprint: req.Fingerprint,
				StartedAt: time.Now(),
			}},
		})
		if err != nil || !restored || record.State != dedupe.Unknown {
			t.Fatal(record.State, restored, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got := lookup(t, open(t, path, Options{}), "x"); got.State != dedupe.Unknown {
			t.Errorf("after it was opened again it is %v", got.State)
		}
	})
}

// A row that is changed in the very commit that goes through the log where it was is the new
// one.
func TestARowIsChangedAsItIsMoved(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
	sheet := dedupe.ValueKey{Kind: dedupe.TallyValue, Name: "changed"}
	transcribed(t, s, "c", spoken(1), time.Hour)
	s.mustDo(t, func(t *txn) {
		t.SetValue(sheet, "before", time.Hour)
	})
	s.still(func() {
		txn := s.begin()
		head := conversation.Write{Key: transcriptKey("c"), Was: []byte("head of c"), Head: []byte("after"), After: 2, Messages: spoken(1), TTL: time.Hour}
		txn.writeConversation(conversationKey(head.Key), &head)
		txn.SetValue(sheet, "after", time.Hour)
		if err := errors.Join(txn.failed, txn.clean(mostCleaned, math.MaxInt), s.commit(txn, 0)); err != nil {
			t.Fatal(err)
		}
		if s.file.tail == 0 {
			t.Error("nothing was gone through")
		}
	})
	for range 2 {
		if got, err := read(t.Context(), s, func(t *txn) string { return t.Value(sheet) }); err != nil || got != "after" {
			t.Errorf("the sheet is %q, %v", got, err)
		}
		got, err := s.ReadConversation(t.Context(), transcriptKey("c"), 0, 1<<20)
		if err != nil || string(got.Head) != "after" || !slices.EqualFunc(got.Messages, slices.Concat(spoken(1), spoken(1)), bytes.Equal) {
			t.Errorf("the conversation is %q with %d messages, %v", got.Head, len(got.Messages), err)
		}
		s = reopen(t, s)
	}
}

// A record that is renewed is remembered, whatever becomes of the log around it.
func TestRenewedRecordsStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		claim(t, s, brief("x", 10*time.Minute))
		for i := range 12 {
			s.fill(t, fmt.Sprint(i, " "), 8*segmentSize, time.Minute)
			time.Sleep(5 * time.Minute)
			if ok, err := storetest.Renew(context.Background(), s, request("x", 0).Key, "owner of x", 1, time.Minute); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		tail, _ := logIs(s)
		if got := lookup(t, s, "x"); got.State != dedupe.Claimed || tail == 0 {
			t.Errorf("it is %v; the log begins at %d", got.State, tail)
		}
	})
}

// A forgotten id that is used again before it is swept is one record, not two.
func TestAForgottenIDIsUsedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		claim(t, s, brief("x", time.Minute))
		end := settlement("x", "first")
		end.Retention = time.Minute
		settle(t, s, end)
		time.Sleep(time.Minute)
		claim(t, s, brief("x", time.Hour))
		settle(t, s, settlement("x", "second"))
		time.Sleep(3 * time.Minute)
		s = reopen(t, s) // which checks the file
		if got := lookup(t, s, "x"); string(got.Result) != "second" {
			t.Errorf("replays %q", got.Result)
		}
	})
}

// Retention ends for a call of unknown outcome as for any other.
func TestAnUnknownCallIsForgottenToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		claim(t, s, brief("x", time.Minute))
		end := settlement("x", "")
		end.State, end.Retention = dedupe.Unknown, time.Minute
		settle(t, s, end)
		if a, err := s.Admit(t.Context(), brief("x", time.Hour)); err != nil || a.Verdict != dedupe.OutcomeUnknown {
			t.Fatalf("while it is remembered: %v, %v", a.Verdict, err)
		}
		time.Sleep(time.Minute)
		claim(t, s, brief("x", time.Hour))
	})
}

// However much is dead, nobody waits for all of it to be gone through.
func TestACleaningIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		s.fill(t, "", 4*mostCleaned, time.Hour)
		s.still(func() {
			txn := s.begin()
			txn.now = txn.now.Add(2 * time.Hour)
			if err := txn.clean(mostCleaned, math.MaxInt); err != nil {
				t.Fatal(err)
			}
			if got := txn.tail - s.file.tail; got < mostCleaned || got > mostCleaned+segmentSize {
				t.Errorf("%d bytes were gone through at once", got)
			}
			if len(txn.frames) != 0 {
				t.Errorf("%d bytes of what has expired were moved", len(txn.frames))
			}
		})
	})
}

func (s *Store) mustKeep(t *testing.T, id string, output dedupe.Output) {
	t.Helper()
	claim(t, s, request(id, tool.NonIdempotent))
	end := settlement(id, "ok")
	end.Output = &output
	settle(t, s, end)
}

func TestOutputsAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxBytes: 3 << 20})
	piece := bytes.Repeat([]byte("x"), 300<<10)
	for i := range 10 {
		s.mustKeep(t, fmt.Sprint(i), dedupe.Output{Ref: fmt.Sprint(i), Data: piece, TTL: time.Hour + time.Duration(i)*time.Second})
	}
	s = reopen(t, s)
	for i := range 10 {
		_, err := s.Output(context.Background(), "acme", fmt.Sprint(i))
		if kept := err == nil; kept != (i >= 7) {
			t.Errorf("output %d: kept %v (%v), want the newest three", i, kept, err)
		}
	}
	if outputs, total := keptOutputs(s); outputs != 3 || total != 900<<10 {
		t.Errorf("%d outputs of %d bytes are accounted for", outputs, total)
	}
}

func TestExpiredOutputsLeaveTheFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		for i := range 9 {
			s.mustKeep(t, fmt.Sprint(i), dedupe.Output{Ref: fmt.Sprint(i), Data: make([]byte, 100<<10), TTL: time.Minute})
		}
		s.mustKeep(t, "longer", dedupe.Output{Ref: "longer", Data: []byte("x"), TTL: time.Hour})
		time.Sleep(2 * time.Minute)
		if outputs, total := keptOutputs(s); outputs != 1 || total != 1 {
			t.Errorf("%d outputs of %d bytes are left, want the longer one", outputs, total)
		}
		if _, err := s.Output(context.Background(), "acme", "longer"); err != nil {
			t.Error(err)
		}
	})
}

// However many calls share a transaction, it takes as many outputs away as it
// adds: else they pile up as long as the store is busy.
func TestAGroupSweepsTheOutputsThatItAdds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		const calls = 50
		for i := range calls {
			id := fmt.Sprint("old ", i)
			s.mustKeep(t, id, dedupe.Output{Ref: id, Data: []byte("expired"), TTL: 100 * time.Millisecond})
		}
		var group []*operation
		for i := range calls {
			id := fmt.Sprint("new ", i)
			claim(t, s, request(id, tool.NonIdempotent))
			end := settlement(id, "ok")
			end.Output = &dedupe.Output{Ref: id, Data: []byte("new"), TTL: time.Hour}
			group = append(group, settling(t, end))
		}
		time.Sleep(200 * time.Millisecond) // less than until the idle store sweeps
		s.serve(group)
		if outputs, _ := keptOutputs(s); outputs != calls {
			t.Errorf("%d outputs are left, want the %d new ones", outputs, calls)
		}
	})
}

// The same ref kept again after it expired has a time of its own.
func TestARefIsKeptAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{})
		s.mustKeep(t, "x", dedupe.Output{Ref: "ref", Data: []byte("first"), TTL: 500 * time.Millisecond})
		time.Sleep(600 * time.Millisecond)
		s.mustKeep(t, "y", dedupe.Output{Ref: "ref", Data: []byte("second"), TTL: time.Hour})
		time.Sleep(time.Minute)
		got, err := s.Output(context.Background(), "acme", "ref")
		if err != nil || string(got.Data) != "second" {
			t.Errorf("got %q, %v", got.Data, err)
		}
		if outputs, total := keptOutputs(s); outputs != 1 || total != 6 {
			t.Errorf("%d outputs of %d bytes", outputs, total)
		}
	})
}

// A ref that is kept again gives way by its new time, not by the one that it had.
func TestARefKeptAgainGivesWayByItsNewTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxBytes: 3 << 20})
		data := make([]byte, 600<<10)
		s.mustKeep(t, "x", dedupe.Output{Ref: "again", Data: data[:300<<10], TTL: 500 * time.Millisecond})
		s.mustKeep(t, "y", dedupe.Output{Ref: "other", Data: data, TTL: time.Hour})
		claim(t, s, request("z", tool.NonIdempotent))
		time.Sleep(600 * time.Millisecond) // it has expired, and is not swept
		end := settlement("z", "ok")
		end.Output = &dedupe.Output{Ref: "again", Data: data, TTL: 2 * time.Hour}
		settle(t, s, end)
		if _, err := s.Output(t.Context(), "acme", "again"); err != nil {
			t.Errorf("what was just kept: %v", err)
		}
		if _, err := s.Output(t.Context(), "acme", "other"); !errors.Is(err, dedupe.ErrNoOutput) {
			t.Errorf("what expires first: %v", err)
		}
		if outputs, total := keptOutputs(s); outputs != 1 || total != 600<<10 {
			t.Errorf("%d outputs of %d bytes", outputs, total)
		}
	})
}

// A store that may not grow refuses new calls and lives; with room again it
// goes on.
func TestAFullStoreRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "store.db"), Options{MaxBytes: 1 << 20})
		var full error
		n := 0
		for ; full == nil; n++ {
			a, err := s.Admit(context.Background(), brief(fmt.Sprint(n), time.Minute))
			if err != nil {
				full = err
				break
			}
			if a.Verdict != dedupe.Won {
				t.Fatal(a.Verdict)
			}
			end := settlement(fmt.Sprint(n), "ok")
			end.Result, end.Retention = make([]byte, 10<<10), time.Minute
			if _, err := s.Settle(context.Background(), end); err != nil {
				full = err
			}
		}
		if !errors.Is(full, dedupe.ErrFull) {
			t.Fatalf("after %d calls: %v", n, full)
		}
		if got := lookup(t, s, "0"); got.State != dedupe.Done {
			t.Errorf("an old record is %v", got.State)
		}
		time.Sleep(2 * tidyEvery)
		if err := s.Ping(context.Background()); !errors.Is(err, dedupe.ErrFull) || !strings.Contains(err.Error(), "store.embedded.max_bytes") {
			t.Errorf("Ping of a full store: %v", err)
		}
		time.Sleep(3 * time.Minute)
		if err := s.Ping(context.Background()); err != nil {
			t.Errorf("Ping when all has expired and nobody has asked: %v", err)
		}
		finished(t, s, "afterwards", "ok")
	})
}

// An open claim whose retention is over is forgotten; the next start, which
// decides the open claims, does not bring it back.
func TestARestartDoesNotRecallForgottenClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Admit(t.Context(), brief("x", time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := open(t, path, Options{})
		record, err := storetest.Lookup(t.Context(), again, brief("x", time.Hour).Key)
		if err != nil || record.State != dedupe.Absent {
			t.Errorf("got %v, %v; want absent", record.State, err)
		}
	})
}
